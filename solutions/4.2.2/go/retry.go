package main

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// newQueue makes a queue whose keys each wait base, 2*base, 4*base ... up to max.
func newQueue(base, max time.Duration) workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(newLimiter(base, max))
}

// newLimiter is the limiter of newQueue.
func newLimiter(base, max time.Duration) workqueue.TypedRateLimiter[string] {
	// phase4:solution
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](base, max)
	// phase4:stub
	// panic("newLimiter is not written yet")
	// phase4:end
}

// processNext gets a key, reconciles it, and says to the queue how it went;
// false when it is over.
func (e *echo) processNext(ctx context.Context) bool {
	key, shutdown := e.queue.Get()
	if shutdown {
		return false
	}
	// phase4:solution
	defer e.queue.Done(key)
	if err := e.reconcile(ctx, key); err != nil {
		e.queue.AddRateLimited(key)
		return true
	}
	e.queue.Forget(key)
	// phase4:stub
	// // What if it fails? What if it does not? What in both cases?
	// _ = e.reconcile(ctx, key)
	// phase4:end
	return true
}
