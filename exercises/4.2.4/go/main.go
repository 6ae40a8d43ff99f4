// A janitor: when an app is gone, its record is removed.
//
// An app is a ConfigMap with the label kind=app in the namespace $NAMESPACE. Its
// record is the ConfigMap record-UID beside it, with the app's UID in its name;
// it stands for something that no owner reference can clean up. (A real
// controller would use a finalizer. This one shows what the cache alone can tell.)
//
// After everything its handler is told it prints the cache, as one JSON object a
// line: keys to UIDs. What you write is in handler.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type janitor struct {
	configMaps dynamic.ResourceInterface
	store      cache.Store
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	mine := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(os.Getenv("NAMESPACE"))
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = "kind=app"
			return mine.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "kind=app"
			return mine.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	j := &janitor{configMaps: mine, store: informer.GetStore()}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { j.printCache() },
		UpdateFunc: func(old, new any) {
			j.updated(ctx, old.(*unstructured.Unstructured), new.(*unstructured.Unstructured))
			j.printCache()
		},
		DeleteFunc: func(obj any) {
			j.deleted(ctx, obj)
			j.printCache()
		},
	})
	must(err)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	fmt.Println("synced")
	<-ctx.Done()
}

// removeRecord removes the record of the app with this UID. Fine if there is none.
func (j *janitor) removeRecord(ctx context.Context, uid string) {
	err := j.configMaps.Delete(ctx, "record-"+uid, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (j *janitor) printCache() {
	uids := map[string]string{}
	for _, obj := range j.store.List() {
		app := obj.(*unstructured.Unstructured)
		uids[app.GetNamespace()+"/"+app.GetName()] = string(app.GetUID())
	}
	line, err := json.Marshal(map[string]any{"cache": uids})
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
