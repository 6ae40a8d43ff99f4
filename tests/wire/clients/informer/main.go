// Informer drives client-go as a controller does: a shared informer over the
// configmaps of one namespace, and a create, an update and a delete of its own.
// It prints one JSON line for each thing that happens, for the test to read.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var printing sync.Mutex

func say(what, name, version string) {
	printing.Lock()
	defer printing.Unlock()
	line, _ := json.Marshal(map[string]string{"what": what, "name": name, "rv": version})
	fmt.Println(string(line))
}

func fatal(err error) {
	say("error", err.Error(), "")
	os.Exit(1)
}

func main() {
	namespace := flag.String("namespace", "default", "whose configmaps")
	write := flag.String("write", "", "create, update and delete a configmap of this name, then exit")
	protobuf := flag.Bool("protobuf", true, "speak protobuf, as client-go does by itself; else JSON")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fatal(err)
	}
	if !*protobuf {
		config.ContentType = "application/json"
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *write != "" {
		writeOnce(ctx, client, *namespace, *write)
		return
	}

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(*namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			o := obj.(*corev1.ConfigMap)
			say("add", o.Name, o.ResourceVersion)
		},
		UpdateFunc: func(_, obj any) {
			o := obj.(*corev1.ConfigMap)
			say("update", o.Name, o.ResourceVersion)
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				o := tombstone.Obj.(*corev1.ConfigMap)
				say("tombstone", o.Name, o.ResourceVersion)
				return
			}
			o := obj.(*corev1.ConfigMap)
			say("delete", o.Name, o.ResourceVersion)
		},
	})
	if err != nil {
		fatal(err)
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		say("synced", "", "")
	}
	<-ctx.Done()
}

func writeOnce(ctx context.Context, client kubernetes.Interface, namespace, name string) {
	maps := client.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		fatal(err)
	}
	say("created", made.Name, made.ResourceVersion)
	made.Data = map[string]string{"a": "b"}
	made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		fatal(err)
	}
	say("updated", made.Name, made.ResourceVersion)
	if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		fatal(err)
	}
	say("deleted", name, "")
}
