// A pruner: children whose owner does not exist are deleted.
//
// In the namespace $NAMESPACE, children are Secrets with the label kind=child.
// Each names its owner in the annotation «owner»: configmaps/NAME or
// serviceaccounts/NAME. Owners have the label kind=owner. The pruner asks its
// caches alone; that is the point, and the danger.
//
// With --unsafe it starts at once. Without, it waits: that part is in wait.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
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
	"k8s.io/client-go/util/workqueue"
)

type pruner struct {
	namespace string
	client    dynamic.Interface
	secrets   dynamic.ResourceInterface
	children  cache.SharedIndexInformer
	// owners has a cache for each kind of owner.
	owners map[string]cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
	// registrations are of every informer, in no particular order.
	registrations []cache.ResourceEventHandlerRegistration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	client, err := dynamic.NewForConfig(config)
	must(err)
	p := &pruner{
		namespace: os.Getenv("NAMESPACE"),
		client:    client,
		owners:    map[string]cache.SharedIndexInformer{},
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	p.secrets = client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(p.namespace)
	p.children = p.informer("secrets", "kind=child")
	p.handle(p.children, p.enqueue, p.enqueue)
	for _, plural := range []string{"configmaps", "serviceaccounts"} {
		p.owners[plural] = p.informer(plural, "kind=owner")
		// An owner is gone: look at every child again.
		p.handle(p.owners[plural], func(any) {}, func(any) {
			for _, child := range p.children.GetStore().List() {
				p.enqueue(child)
			}
		})
	}
	go p.children.RunWithContext(ctx)
	for _, informer := range p.owners {
		go informer.RunWithContext(ctx)
	}
	fmt.Println("started")
	if !slices.Contains(os.Args, "--unsafe") && !p.waitForCaches(ctx) {
		return
	}
	go p.work(ctx)
	<-ctx.Done()
	p.queue.ShutDown()
}

func (p *pruner) informer(plural, label string) cache.SharedIndexInformer {
	resource := p.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: plural}).Namespace(p.namespace)
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = label
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = label
			return resource.Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
}

func (p *pruner) handle(informer cache.SharedIndexInformer, changed, deleted func(any)) {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, new any) { changed(new) },
		DeleteFunc: deleted,
	})
	must(err)
	p.registrations = append(p.registrations, registration)
}

func (p *pruner) enqueue(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		p.queue.Add(key)
	}
}

func (p *pruner) work(ctx context.Context) {
	for {
		key, over := p.queue.Get()
		if over {
			return
		}
		if err := p.prune(ctx, key); err != nil {
			fmt.Fprintln(os.Stderr, key, err)
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// prune deletes a child if its owner is not in the cache.
func (p *pruner) prune(ctx context.Context, key string) error {
	obj, exists, err := p.children.GetStore().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	child := obj.(*unstructured.Unstructured)
	plural, owner, _ := strings.Cut(child.GetAnnotations()["owner"], "/")
	_, exists, err = p.owners[plural].GetStore().GetByKey(p.namespace + "/" + owner)
	if err != nil || exists {
		return err
	}
	uid := child.GetUID()
	err = p.secrets.Delete(ctx, child.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
