// Follows the objects of a kind ($RESOURCE: configmaps or events) in the namespace $NAMESPACE.
//
// Prints its cache when it changes, one JSON object a line: each object's name and its
// resourceVersion. What you write is in informer.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	kind := schema.GroupVersionResource{Version: "v1", Resource: os.Getenv("RESOURCE")}
	mine := client.Resource(kind).Namespace(os.Getenv("NAMESPACE"))
	informer := newInformer(mine, "kind=lab")
	print := func() {
		versions := map[string]string{}
		for _, obj := range informer.GetStore().List() {
			one := obj.(*unstructured.Unstructured)
			versions[one.GetName()] = one.GetResourceVersion()
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
	synced, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !cache.WaitForCacheSync(synced.Done(), registration.HasSynced) {
		must(errors.New("the cache did not fill within ten seconds"))
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
