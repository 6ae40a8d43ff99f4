// Answers the grader's traces with client-go's own work queue.
//
// A trace is a list of calls; the answer is the list of what each returned, as
// JSON, one line a trace. By hand:
//
//	echo '[{"ops": [["add", "a"], ["get"]]}]' > t.json; TRACES=$(cat t.json) go run .
//
// What you write is in queue.go. Nothing to write here.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

type trace struct {
	Ops [][]any `json:"ops"`
}

// replay is one trace under way: the queue, and what its workers have.
type replay struct {
	queue workqueue.TypedInterface[string]
	// processing are the keys that a worker has, in the order in which they were got.
	processing []string
	// drained is whether ShutDownWithDrain has returned; mayEnd whether it is time.
	drained  atomic.Bool
	mayEnd   bool
	draining bool
	// told has what a goroutine that waits in get was given.
	told chan any
}

type gotKey struct {
	Key string `json:"key"`
}

// drainPatience is how long a drain has to return once it may.
var drainPatience = 5 * time.Second

func main() {
	var traces []trace
	if err := json.Unmarshal([]byte(os.Getenv("TRACES")), &traces); err != nil {
		fmt.Fprintln(os.Stderr, "TRACES:", err)
		os.Exit(2)
	}
	for _, trace := range traces {
		line, err := json.Marshal(run(trace))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

func run(trace trace) []any {
	r := &replay{queue: workqueue.NewTyped[string]()}
	defer r.queue.ShutDown()
	outcomes := []any{}
	for _, op := range trace.Ops {
		outcome, err := r.call(op[0].(string), op[1:])
		if err != nil {
			return append(outcomes, map[string]string{"raised": err.Error()})
		}
		outcomes = append(outcomes, outcome)
		if len(r.processing) == 0 {
			r.mayEnd = true
			if r.draining {
				// Its moment: it must see it before the next call puts an end to it.
				r.waitForDrain()
			}
		}
	}
	return outcomes
}

func (r *replay) call(name string, arguments []any) (any, error) {
	switch name {
	case "len":
		return r.queue.Len(), nil
	case "shutting_down":
		return r.queue.ShuttingDown(), nil
	case "done_nth":
		if len(r.processing) == 0 {
			return nil, nil
		}
		n := int(arguments[0].(float64)) % len(r.processing)
		key := r.processing[n]
		r.processing = append(r.processing[:n:n], r.processing[n+1:]...)
		return nil, r.done(key)
	case "add":
		return nil, r.add(arguments[0].(string))
	case "get":
		if r.queue.Len() == 0 && !r.queue.ShuttingDown() {
			return "blocked", nil
		}
		key, over, err := r.get()
		if err != nil {
			return nil, err
		}
		if over {
			return "shutdown", nil
		}
		r.processing = append(r.processing, key)
		return gotKey{key}, nil
	case "shut_down":
		r.mayEnd = true
		return nil, r.shutDown(false)
	case "drain":
		r.mayEnd, r.draining = false, true
		failed := make(chan error, 1)
		go func() {
			if err := r.shutDown(true); err != nil {
				failed <- err
				return
			}
			r.drained.Store(true)
		}()
		// It waits in there; go on once it has begun.
		for until := time.Now().Add(5 * time.Second); !r.queue.ShuttingDown() && time.Now().Before(until); {
			select {
			case err := <-failed:
				return nil, err
			case <-time.After(time.Millisecond):
			}
		}
		return nil, nil
	case "drained":
		return r.waitForDrain(), nil
	case "waiter":
		r.wait()
		return nil, nil
	case "told":
		select {
		case outcome := <-r.told:
			if err, failed := outcome.(error); failed {
				return nil, err
			}
			return outcome, nil
		case <-time.After(drainPatience):
			return "nothing", nil
		}
	case "workers":
		return r.workers(int(arguments[0].(float64)), int(arguments[1].(float64)))
	}
	return nil, fmt.Errorf("there is no call %q", name)
}

// wait has a goroutine of its own wait in get, and returns once it does.
func (r *replay) wait() {
	r.told = make(chan any, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		key, over, err := r.get()
		switch {
		case err != nil:
			r.told <- err
		case over:
			r.told <- "shutdown"
		default:
			r.told <- gotKey{key}
		}
	}()
	<-began
	// Whether it waits cannot be seen from outside: whoever comes a little late finds the
	// key, or the end, all the same.
	time.Sleep(5 * time.Millisecond)
}

// waitForDrain is whether the drain has returned, after waiting for it as long as
// is needed to tell.
func (r *replay) waitForDrain() bool {
	// Whether it ends is known; for how long to wait until it has, is not.
	patience := 2 * time.Millisecond
	if r.mayEnd {
		patience = drainPatience
	}
	for until := time.Now().Add(patience); !r.drained.Load() && time.Now().Before(until); {
		time.Sleep(100 * time.Microsecond)
	}
	if r.mayEnd && r.draining && !r.drained.Load() {
		// Waited for in vain once: not for so long in the traces to come.
		drainPatience = 50 * time.Millisecond
	}
	return r.drained.Load()
}

// workers has goroutines work on keys that are added meanwhile, and says how
// often two had the same key, how many keys' last add nobody acted on, how many
// keys waited beside idle workers, and how many workers did not end.
func (r *replay) workers(count, adds int) (any, error) {
	var lock sync.Mutex
	busy, latest, seen := map[string]bool{}, map[string]int{}, map[string]int{}
	overlaps := 0
	failed := make(chan error, count)
	var wg sync.WaitGroup
	for range count {
		wg.Go(func() {
			for {
				key, over, err := r.get()
				if err != nil {
					failed <- err
					return
				}
				if over {
					return
				}
				lock.Lock()
				if busy[key] {
					overlaps++
				}
				busy[key] = true
				version := latest[key]
				lock.Unlock()
				time.Sleep(time.Microsecond)
				lock.Lock()
				seen[key] = max(seen[key], version)
				busy[key] = false
				lock.Unlock()
				if err := r.done(key); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	keys := "abcde"
	for i := range adds {
		key := keys[i%len(keys) : i%len(keys)+1]
		lock.Lock()
		latest[key]++
		lock.Unlock()
		if err := r.add(key); err != nil {
			return nil, err
		}
	}
	idle := func() bool {
		lock.Lock()
		defer lock.Unlock()
		for _, is := range busy {
			if is {
				return false
			}
		}
		return r.queue.Len() == 0
	}
	for until := time.Now().Add(3 * time.Second); !idle() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	waiting := r.queue.Len()
	if err := r.shutDown(false); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	stuck := 0
	select {
	case <-ended:
	case err := <-failed:
		return nil, err
	case <-time.After(5 * time.Second):
		stuck = count
	}
	lock.Lock()
	defer lock.Unlock()
	lost := 0
	for key := range latest {
		if seen[key] != latest[key] {
			lost++
		}
	}
	return map[string]int{"overlaps": overlaps, "lost": lost, "waiting": waiting, "stuck": stuck}, nil
}
