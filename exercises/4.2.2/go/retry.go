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
	panic("newLimiter is not written yet")
}

// processNext gets a key, reconciles it, and says to the queue how it went;
// false when it is over.
func (e *echo) processNext(ctx context.Context) bool {
	key, shutdown := e.queue.Get()
	if shutdown {
		return false
	}
	// What if it fails? What if it does not? What in both cases?
	_ = e.reconcile(ctx, key)
	return true
}
