// A controller that copies: each ConfigMap's data.seen becomes its data.wanted.
//
// It watches the ConfigMaps of one namespace ($NAMESPACE). The limiter's two
// numbers come from $BASE and $MAX, in seconds. What you write is in retry.go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

type echo struct {
	client dynamic.Interface
	store  cache.Store
	queue  workqueue.TypedRateLimitingInterface[string]
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "replay" {
		replay()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS, config.Burst = 100, 100
	client, err := dynamic.NewForConfig(config)
	must(err)
	mine := client.Resource(configMaps).Namespace(os.Getenv("NAMESPACE"))
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return mine.List(ctx, options)
		},
		WatchFuncWithContext: mine.Watch,
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	e := &echo{client: client, store: informer.GetStore(), queue: newQueue(inSeconds("BASE"), inSeconds("MAX"))}
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			e.queue.Add(key)
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, new any) { enqueue(new) },
		DeleteFunc: enqueue,
	})
	must(err)
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return
	}
	for range 2 {
		go func() {
			for e.processNext(ctx) {
			}
		}()
	}
	fmt.Println("synced")
	<-ctx.Done()
	e.queue.ShutDown()
}

// reconcile makes one ConfigMap as it is wanted.
func (e *echo) reconcile(ctx context.Context, key string) error {
	obj, exists, err := e.store.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	data, _, _ := unstructured.NestedStringMap(obj.(*unstructured.Unstructured).Object, "data")
	wanted, ok := data["wanted"]
	if !ok || data["seen"] == wanted {
		return nil
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"seen": wanted}})
	if err != nil {
		return err
	}
	_, err = e.client.Resource(configMaps).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func inSeconds(name string) time.Duration {
	value, err := strconv.ParseFloat(os.Getenv(name), 64)
	must(err)
	return time.Duration(value * float64(time.Second))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
