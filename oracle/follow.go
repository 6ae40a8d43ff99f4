package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// follow runs an informer on a server, in real time, and prints what its
// handler is told, one JSON array a line. For each line on standard input it
// prints the store and whether it has synced; it ends with standard input.
// KUBE_FEATURE_WatchListClient=false makes it list.
func follow(arguments []string) {
	flags := flag.NewFlagSet("follow", flag.ExitOnError)
	url := flags.String("url", "", "the server")
	group := flags.String("group", "", "the resource's group")
	version := flags.String("version", "v1", "the resource's version")
	resource := flags.String("resource", "configmaps", "the resource's plural name")
	namespace := flags.String("namespace", "", "one namespace, or all")
	watchSeconds := flags.Int64("watch-seconds", 0, "how long a watch is asked for; 0: client-go's own choice")
	must(flags.Parse(arguments))
	quiet()

	client, err := dynamic.NewForConfig(&rest.Config{Host: *url, QPS: 1000, Burst: 1000})
	must(err)
	gvr := schema.GroupVersionResource{Group: *group, Version: *version, Resource: *resource}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, *namespace, func(options *metav1.ListOptions) {
		if *watchSeconds > 0 && options.TimeoutSeconds != nil {
			options.TimeoutSeconds = watchSeconds
		}
	})
	informer := factory.ForResource(gvr).Informer()

	var lock sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	print := func(line ...any) {
		lock.Lock()
		defer lock.Unlock()
		must(encoder.Encode(line))
	}
	registration, err := informer.AddEventHandler(&printer{print})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	started := time.Now()
	go informer.RunWithContext(ctx)
	go func() {
		cache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
		print("synced", time.Since(started).Seconds())
	}()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		print("store", briefs(informer.GetStore().List()), informer.HasSynced())
	}
	cancel()
}

type printer struct{ print func(...any) }

func (p *printer) OnAdd(obj any, initial bool) { p.print("add", brief(obj), initial) }
func (p *printer) OnUpdate(old, new any)       { p.print("update", brief(old), brief(new)) }
func (p *printer) OnDelete(obj any)            { p.print("delete", brief(obj)) }
