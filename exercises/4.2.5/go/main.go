// Follows the ConfigMaps of the namespace $NAMESPACE, and prints its cache when it changes.
//
// One JSON object a line: each ConfigMap's name and its resourceVersion. What you
// write is in informer.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	mine := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(os.Getenv("NAMESPACE"))
	informer := newInformer(mine, "kind=lab")
	print := func() {
		versions := map[string]string{}
		for _, obj := range informer.GetStore().List() {
			configMap := obj.(*unstructured.Unstructured)
			versions[configMap.GetName()] = configMap.GetResourceVersion()
		}
		line, err := json.Marshal(map[string]any{"cache": versions})
		must(err)
		fmt.Println(string(line))
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { print() },
		UpdateFunc: func(any, any) { print() },
		DeleteFunc: func(any) { print() },
	})
	must(err)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	fmt.Println("synced")
	<-ctx.Done()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
