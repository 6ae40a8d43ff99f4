package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// replay answers the grader's traces with your limiter and your queue. Here the
// clock is the real one: a step sleeps.
func replay() {
	var traces []struct {
		Structure string
		Limiter   struct{ Base, Max float64 }
		Ops       [][]any
	}
	must(json.Unmarshal([]byte(os.Getenv("TRACES")), &traces))
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, trace := range traces {
		limiter := newLimiter(seconds(trace.Limiter.Base), seconds(trace.Limiter.Max))
		queue := newQueue(seconds(trace.Limiter.Base), seconds(trace.Limiter.Max))
		outcomes := []any{}
		for _, op := range trace.Ops {
			var outcome any
			text := func(i int) string { return op[i].(string) }
			switch text(0) {
			case "when":
				outcome = limiter.When(text(1)).Seconds()
			case "forget":
				limiter.Forget(text(1))
				queue.Forget(text(1))
			case "num_requeues":
				outcome = limiter.NumRequeues(text(1))
			case "step":
				time.Sleep(seconds(op[1].(float64)))
			case "add":
				queue.Add(text(1))
			case "add_after":
				queue.AddAfter(text(1), seconds(op[2].(float64)))
			case "get":
				outcome = "blocked"
				if queue.Len() > 0 {
					key, _ := queue.Get()
					queue.Done(key)
					outcome = map[string]string{"key": key}
				}
			}
			outcomes = append(outcomes, outcome)
		}
		queue.ShutDown()
		line, err := json.Marshal(outcomes)
		must(err)
		fmt.Println(string(line))
	}
}
