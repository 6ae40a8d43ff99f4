// Says ten times a second what HasSynced says, and what is true of the cache.
//
// One JSON object a line: whether the informer has synced, whether the handler
// has (its registration), how many objects the handler has seen, and the cache:
// each ConfigMap's name in the namespace $NAMESPACE and its resourceVersion.
//
// The handler is slow: it takes $SLOW seconds for each object. empty is what the
// registration with a second informer says, for whose label there is no object.
// What you write is in status.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type status struct {
	Handler  bool              `json:"handler"`
	Informer bool              `json:"informer"`
	Empty    bool              `json:"empty"`
	Seen     int64             `json:"seen"`
	Updated  int64             `json:"updated"`
	Cache    map[string]string `json:"cache"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	mine := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(os.Getenv("NAMESPACE"))
	informerOf := func(selector string) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.LabelSelector = selector
				return mine.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.LabelSelector = selector
				return mine.Watch(ctx, options)
			},
		}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	}
	informer, nothing := informerOf("kind=lab"), informerOf("kind=nothing")
	slow, err := strconv.ParseFloat(os.Getenv("SLOW"), 64)
	must(err)
	var seen, updated atomic.Int64
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			time.Sleep(time.Duration(slow * float64(time.Second)))
			seen.Add(1)
		},
		UpdateFunc: func(any, any) { updated.Add(1) },
	})
	must(err)
	empty, err := nothing.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	must(err)
	go informer.RunWithContext(ctx)
	go nothing.RunWithContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		// The order matters: what is asked last may be newer, never older.
		now := status{Handler: handlerSynced(informer, registration), Informer: informerSynced(informer, registration)}
		now.Empty = handlerSynced(nothing, empty)
		now.Seen, now.Updated = seen.Load(), updated.Load()
		now.Cache = versions(informer)
		line, err := json.Marshal(now)
		must(err)
		fmt.Println(string(line))
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
