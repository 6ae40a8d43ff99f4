package main

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// bench measures client-go's work queue in one goroutine: add, get and done of
// each of n keys, after another n keys were queued (so that it is never empty).
func bench(arguments []string) {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	n := flags.Int("n", 100000, "keys")
	must(flags.Parse(arguments))
	queue := workqueue.NewTyped[string]()
	keys := make([]string, 2**n)
	for i := range keys {
		keys[i] = "namespace/name-" + strconv.Itoa(i)
	}
	for _, key := range keys[:*n] {
		queue.Add(key)
	}
	start := time.Now()
	for _, key := range keys[*n:] {
		queue.Add(key)
		got, _ := queue.Get()
		queue.Done(got)
	}
	elapsed := time.Since(start).Seconds()
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"n": *n, "seconds": elapsed}))
}
