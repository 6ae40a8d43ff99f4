package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	// (the answer tells errors apart)
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
	"phase4.example.com/workspace/operator_handwired/generated/clientset/versioned"
	informers "phase4.example.com/workspace/operator_handwired/generated/informers/externalversions/api/v1alpha1"
	listers "phase4.example.com/workspace/operator_handwired/generated/listers/api/v1alpha1"
)

const (
	// dnsNamespace stands for a DNS provider: outside the WebApp's namespace, so
	// that no owner reference can clean a record up.
	dnsNamespace = "dns"
	// byController indexes Pods by the UID of their controller; Pods without one
	// that carry the WebApp label are under orphanKey.
	byController = "controller"
	byUID        = "uid"
)

// Controller keeps Pods, DNS record and status of every WebApp as its spec says.
//
// Concurrency: informers call the handlers below from one goroutine each; the
// handlers only put keys into the queue. Any number of workers take keys from
// it, and the queue never gives one key to two of them. A reconcile keeps
// nothing between two runs: all that it knows it reads from the listers, and
// before it destroys anything, from the API server.
type Controller struct {
	kube    kubernetes.Interface
	webapps versioned.Interface

	webappLister  listers.WebAppLister
	recordLister  corelisters.ConfigMapLister
	webappIndexer cache.Indexer
	podIndexer    cache.Indexer
	synced        []cache.InformerSynced

	queue workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// NewController wires informers, handlers and queue; nothing runs before Run.
func NewController(
	kube kubernetes.Interface,
	webapps versioned.Interface,
	webappInformer informers.WebAppInformer,
	podInformer coreinformers.PodInformer,
	recordInformer coreinformers.ConfigMapInformer,
) (*Controller, error) {
	c := &Controller{
		kube:          kube,
		webapps:       webapps,
		webappLister:  webappInformer.Lister(),
		recordLister:  recordInformer.Lister(),
		webappIndexer: webappInformer.Informer().GetIndexer(),
		podIndexer:    podInformer.Informer().GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedMaxOfRateLimiter(
				workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 30*time.Second),
				&workqueue.TypedBucketRateLimiter[cache.ObjectName]{Limiter: rate.NewLimiter(rate.Limit(50), 300)},
			),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "webapps"},
		),
	}
	err := errors.Join(
		webappInformer.Informer().AddIndexers(cache.Indexers{byUID: indexByUID}),
		podInformer.Informer().AddIndexers(cache.Indexers{byController: indexByController}),
	)
	if err != nil {
		return nil, fmt.Errorf("adding indexers: %w", err)
	}
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		keys     func(obj any) []cache.ObjectName
	}{
		{webappInformer.Informer(), c.keysOfWebApp},
		{podInformer.Informer(), c.keysOfPod},
		{recordInformer.Informer(), c.keysOfRecord},
	} {
		registration, err := source.informer.AddEventHandler(c.enqueuer(source.keys))
		if err != nil {
			return nil, fmt.Errorf("adding a handler: %w", err)
		}
		// The registration's HasSynced, not the informer's: true once the handler
		// has been told of the whole initial list, so every key is in the queue.
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

// Run works until terminated ends, finishes what is in hand, and returns. The end
// of ctx cuts off what is in hand as well. It returns false if the caches never
// synced.
func (c *Controller) Run(ctx, terminated context.Context, workers int) bool {
	logger := klog.FromContext(ctx)
	// Ends with either: from then on no key is taken.
	taking, stop := context.WithCancel(terminated)
	defer stop()
	defer context.AfterFunc(ctx, stop)()

	// When may a worker start?
	logger.Info("Caches are in sync, starting workers", "workers", workers)

	// Wakes the workers that wait for a key.
	defer context.AfterFunc(taking, c.queue.ShutDown)()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			// A panic is logged, and ends the process: what was done when it came is
			// known to nobody, and a new process lists everything.
			defer utilruntime.HandleCrashWithContext(ctx)
			for c.processNext(ctx, taking) {
			}
		})
	}
	group.Wait()
	return true
}

// processNext takes one key and reconciles it; false once taking has ended.
func (c *Controller) processNext(ctx, taking context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	// A queue that is shut down still hands out what is in it. That is left to
	// whoever comes next, and lists everything again.
	if taking.Err() != nil {
		return false
	}

	if err := c.reconcile(ctx, key); err != nil {
		klog.FromContext(ctx).Error(err, "Reconcile failed", "webapp", key)
	}
	return true
}

// enqueuer makes a handler that puts the keys which an object belongs to into
// the queue. An update enqueues the keys of both states, so that a WebApp hears
// of a Pod that was taken from it.
func (c *Controller) enqueuer(keys func(obj any) []cache.ObjectName) cache.ResourceEventHandler {
	enqueue := func(obj any) {
		for _, key := range keys(obj) {
			c.queue.Add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		// What else happens to an object, and whose keys are those?
	}
}

func (c *Controller) keysOfWebApp(obj any) []cache.ObjectName {
	webapp, ok := obj.(*v1alpha1.WebApp)
	if !ok {
		return nil
	}
	return []cache.ObjectName{cache.MetaObjectToName(webapp)}
}

// keysOfPod names the WebApp that controls a Pod or, where nobody does, the one
// that its label asks to adopt it.
func (c *Controller) keysOfPod(obj any) []cache.ObjectName {
	return nil // Which WebApp must hear of this Pod?
}

// keysOfRecord finds the WebApp by the UID in the record's name: the data may
// have been edited, the name cannot be.
func (c *Controller) keysOfRecord(obj any) []cache.ObjectName {
	record, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return nil
	}
	uid, found := uidOfRecord(record.Name)
	if !found {
		return nil
	}
	owners, err := c.webappIndexer.ByIndex(byUID, uid)
	if err != nil {
		utilruntime.HandleError(err)
	}
	keys := make([]cache.ObjectName, 0, len(owners))
	for _, owner := range owners {
		keys = append(keys, c.keysOfWebApp(owner)...)
	}
	return keys
}

func indexByUID(obj any) ([]string, error) {
	webapp, ok := obj.(*v1alpha1.WebApp)
	if !ok {
		return nil, fmt.Errorf("%T in the index of WebApps", obj)
	}
	return []string{string(webapp.UID)}, nil
}

func indexByController(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T in the index of Pods", obj)
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	if name := pod.Labels[v1alpha1.LabelWebApp]; name != "" {
		return []string{orphanKey(pod.Namespace, name)}, nil
	}
	return nil, nil
}

// orphanKey cannot collide with a UID: a UID holds no slash.
func orphanKey(namespace, webapp string) string { return namespace + "/" + webapp }
