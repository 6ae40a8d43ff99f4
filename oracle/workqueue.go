package main

import (
	"fmt"
	"sync/atomic"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// LimiterSpec describes a rate limiter. Times are in seconds.
type LimiterSpec struct {
	Type     string        `json:"type"`
	Base     float64       `json:"base"`
	Max      float64       `json:"max"`
	QPS      float64       `json:"qps"`
	Burst    int           `json:"burst"`
	Limiters []LimiterSpec `json:"limiters"`
}

func (s LimiterSpec) build() workqueue.TypedRateLimiter[string] {
	switch s.Type {
	case "exponential":
		return workqueue.NewTypedItemExponentialFailureRateLimiter[string](seconds(s.Base), seconds(s.Max))
	case "bucket":
		return &workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Limit(s.QPS), s.Burst)}
	case "max_of":
		var limiters []workqueue.TypedRateLimiter[string]
		for _, inner := range s.Limiters {
			limiters = append(limiters, inner.build())
		}
		return workqueue.NewTypedMaxOfRateLimiter(limiters...)
	case "max_wait":
		return workqueue.NewTypedWithMaxWaitRateLimiter(s.Limiters[0].build(), seconds(s.Max))
	}
	panic(fmt.Sprintf("there is no limiter %q", s.Type))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// step lets time pass, and everything happen that is due by then.
func step(s float64) {
	time.Sleep(seconds(s))
	synctest.Wait()
}

func runLimiter(trace Trace) any {
	limiter := trace.Limiter.build()
	outcomes := []any{}
	for _, op := range trace.Ops {
		var outcome any
		switch op.name() {
		case "when":
			outcome = limiter.When(op.text(1)).Seconds()
		case "forget":
			limiter.Forget(op.text(1))
		case "num_requeues":
			outcome = limiter.NumRequeues(op.text(1))
		case "step":
			step(op.number(1))
		default:
			panic(op.name())
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}

// runWorkqueue drives a rate-limiting queue (which is a delaying one, which is
// a work queue). «get» of an empty queue would wait, and says "blocked" instead.
func runWorkqueue(trace Trace) any {
	spec := trace.Limiter
	if spec == nil {
		spec = &LimiterSpec{Type: "exponential", Base: 0.005, Max: 1000}
	}
	queue := workqueue.NewTypedRateLimitingQueue(spec.build())
	var drained atomic.Bool
	var processing []string
	outcomes := []any{}
	for _, op := range trace.Ops {
		var outcome any
		switch op.name() {
		case "add":
			queue.Add(op.text(1))
		case "get":
			outcome = get(queue)
			if key, ok := outcome.(got); ok {
				processing = append(processing, key.Key)
			}
		case "done":
			queue.Done(op.text(1))
		case "done_nth":
			// Done with one of the keys being processed, if there is any: the n-th, modulo.
			if len(processing) > 0 {
				n := int(op.number(1)) % len(processing)
				queue.Done(processing[n])
				processing = append(processing[:n:n], processing[n+1:]...)
			}
		case "len":
			outcome = queue.Len()
		case "shutting_down":
			outcome = queue.ShuttingDown()
		case "shut_down":
			queue.ShutDown()
		case "drain":
			go func() {
				queue.ShutDownWithDrain()
				drained.Store(true)
			}()
		case "drained":
			outcome = drained.Load()
		case "add_after":
			queue.AddAfter(op.text(1), seconds(op.number(2)))
		case "add_rate_limited":
			queue.AddRateLimited(op.text(1))
		case "forget":
			queue.Forget(op.text(1))
		case "num_requeues":
			outcome = queue.NumRequeues(op.text(1))
		case "step":
			step(op.number(1))
		default:
			panic(op.name())
		}
		synctest.Wait()
		outcomes = append(outcomes, outcome)
	}
	// Ends a drain that still waits, and the waiting loop.
	queue.ShutDown()
	return outcomes
}

func get(queue workqueue.TypedInterface[string]) any {
	if queue.Len() == 0 && !queue.ShuttingDown() {
		return "blocked"
	}
	key, shutdown := queue.Get()
	if shutdown {
		return "shutdown"
	}
	return got{key}
}

type got struct {
	Key string `json:"key"`
}
