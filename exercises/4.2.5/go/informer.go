package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// newInformer makes an informer of the objects with a label. client-go's
// reflector decides when to list and when to watch, and from which version; what
// it decides has to reach the API server.
func newInformer(mine dynamic.ResourceInterface, label string) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return &unstructured.UnstructuredList{}, nil // not written yet
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), nil // not written yet
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
}
