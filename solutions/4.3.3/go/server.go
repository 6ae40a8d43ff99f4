package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// red is what an assertion returns that does not hold; any other error is a broken one.
type red struct{ seen string }

func (r red) Error() string { return "red: " + r.seen }

// server is NAMESPACE of the server that KUBECONFIG points to: no cache, no retries.
type server struct {
	webapps, pods dynamic.ResourceInterface
}

func connect() (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace := os.Getenv("NAMESPACE")
	return &server{
		webapps: client.Resource(schema.GroupVersionResource{Group: "phase4.example.com", Version: "v1alpha1", Resource: "webapps"}).Namespace(namespace),
		pods:    client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace),
	}, nil
}

// create makes a WebApp with so many replicas.
func (s *server) create(ctx context.Context, name string, replicas int64) (*unstructured.Unstructured, error) {
	return s.webapps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "phase4.example.com/v1alpha1",
		"kind":       "WebApp",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"image": "shop:1", "host": "shop.example.com", "replicas": replicas},
	}}, metav1.CreateOptions{})
}

// scale patches a WebApp's replicas.
func (s *server) scale(ctx context.Context, name string, replicas int64) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
	if err != nil {
		return err
	}
	_, err = s.webapps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// until waits for the WebApp's status to be right; red, with what, if it never is.
func (s *server) until(ctx context.Context, name, what string, right func(status map[string]any) bool) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		webapp, err := s.webapps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedMap(webapp.Object, "status")
		if right(status) {
			return nil
		}
		if time.Now().After(deadline) {
			return red{fmt.Sprintf("%s: the status is %v", what, status)}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// number is a number of a status, or -1.
func number(status map[string]any, field string) int64 {
	if value, found, err := unstructured.NestedInt64(status, field); found && err == nil {
		return value
	}
	return -1
}

// podsEver counts the Pods there ever were in the namespace, from now on.
func (s *server) podsEver(ctx context.Context) (func() int, error) {
	list, err := s.pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	events, err := s.pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, err
	}
	var lock sync.Mutex
	seen := map[types.UID]bool{}
	go func() {
		for event := range events.ResultChan() {
			if pod, ok := event.Object.(*unstructured.Unstructured); ok {
				lock.Lock()
				seen[pod.GetUID()] = true
				lock.Unlock()
			}
		}
	}()
	return func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(seen)
	}, nil
}
