// A small controller on client-go: for every Foo, one Deployment. It works as it
// is, and silently. Lab 4.1.4 makes it print a line at each stage.
//
// client-go's ready-made informers hide the stages, so this one is put together
// from the parts that they are made of: a ListerWatcher (what the reflector
// calls), a queue (RealFIFO), an indexer, and cache.New, which runs the reflector
// and pops the queue into process.
//
// Prints one JSON object a line on stdout, and logs to stderr.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

var (
	foos        = schema.GroupVersionResource{Group: "samplecontroller.k8s.io", Version: "v1alpha1", Resource: "foos"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// line is what one stage prints. ResourceVersion is nil where the stage has only
// a key in hand; Cached is what the indexer holds for the key at that moment.
type line struct {
	Stage           string  `json:"stage"`
	Key             string  `json:"key"`
	ResourceVersion *string `json:"resourceVersion,omitempty"`
	Cached          *string `json:"cached,omitempty"`
}

var stdout sync.Mutex

// emit prints one line at once, whole, whichever goroutine calls it.
func emit(l line) {
	text, err := json.Marshal(l)
	if err != nil {
		log.Fatal(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// emitObject prints a line about an object: a Foo, or the tombstone of one.
func emitObject(stage string, obj any) {
	key, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		log.Fatal(err)
	}
	emit(line{Stage: stage, Key: key.String(), ResourceVersion: versionOf(obj)})
}

func versionOf(obj any) *string {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if foo, ok := obj.(*unstructured.Unstructured); ok && foo != nil {
		version := foo.GetResourceVersion()
		return &version
	}
	return nil
}

// listerWatcher is what the reflector calls: what it returns is all that the
// reflector ever sees of the API server.
func listerWatcher(client dynamic.Interface) cache.ListerWatcher {
	resource := client.Resource(foos)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, options)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}, client)
}

// deltaQueue is client-go's queue between reflector and informer. A method
// declared here takes the place of RealFIFO's own: Add, Update, Delete, Replace.
type deltaQueue struct {
	*cache.RealFIFO
}


type controller struct {
	client  dynamic.Interface
	indexer cache.Indexer
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// process takes what was popped off the delta queue: first into the indexer,
// then to the handler.
func (c *controller) process(popped any, _ bool) error {
	for _, delta := range popped.(cache.Deltas) {
		var err error
		if delta.Type == cache.Deleted {
			err = c.indexer.Delete(delta.Object)
		} else {
			err = c.indexer.Update(delta.Object)
		}
		if err != nil {
			return err
		}
		c.handle(delta.Object)
	}
	return nil
}

// handle is the one event handler, for adds, updates and deletes alike.
func (c *controller) handle(obj any) {
	key, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		log.Print(err)
		return
	}
	c.queue.Add(key)
}

// cached is the resourceVersion that the indexer holds for the key, nil if none.
func (c *controller) cached(key cache.ObjectName) *string {
	obj, _, _ := c.indexer.GetByKey(key.String())
	return versionOf(obj)
}

func (c *controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.reconcile(ctx, key); err != nil {
			log.Printf("reconcile of %s failed, will be tried again: %v", key, err)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// reconcile looks the key up in the indexer and applies the Deployment that the
// Foo asks for. What the Foo owns goes with it by its owner reference.
func (c *controller) reconcile(ctx context.Context, key cache.ObjectName) error {
	obj, exists, err := c.indexer.GetByKey(key.String())
	if err != nil {
		return err
	}
	if !exists || obj.(*unstructured.Unstructured).GetDeletionTimestamp() != nil {
		return nil
	}
	deployment := deploymentFor(obj.(*unstructured.Unstructured))
	_, err = c.client.Resource(deployments).Namespace(key.Namespace).Apply(
		ctx, deployment.GetName(), deployment, metav1.ApplyOptions{FieldManager: "foo-stages", Force: true})
	return err
}

func deploymentFor(foo *unstructured.Unstructured) *unstructured.Unstructured {
	name, _, _ := unstructured.NestedString(foo.Object, "spec", "deploymentName")
	replicas, found, _ := unstructured.NestedInt64(foo.Object, "spec", "replicas")
	if !found {
		replicas = 1
	}
	labels := map[string]any{"app": "nginx", "controller": foo.GetName()}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata": map[string]any{
			"name":      name,
			"namespace": foo.GetNamespace(),
			"ownerReferences": []any{map[string]any{
				"apiVersion": foo.GetAPIVersion(), "kind": foo.GetKind(), "name": foo.GetName(),
				"uid": string(foo.GetUID()), "controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{
					map[string]any{"name": "nginx", "image": "nginx:latest"},
				}},
			},
		},
	}}
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the API server")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	c := &controller{
		client:  client,
		indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	informer := cache.New(&cache.Config{
		Queue:         deltaQueue{cache.NewRealFIFO(cache.MetaNamespaceKeyFunc, c.indexer, nil)},
		ListerWatcher: listerWatcher(client),
		Process:       c.process,
		ObjectType:    &unstructured.Unstructured{},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { c.work(context.WithoutCancel(ctx)) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}
