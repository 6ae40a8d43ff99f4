package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// updated is called when an app in the cache has been replaced by a newer state.
func (j *janitor) updated(ctx context.Context, old, new *unstructured.Unstructured) {
}

// deleted is called when an app is gone from the cache.
func (j *janitor) deleted(ctx context.Context, obj any) {
	// What can obj be? See the comment at ResourceEventHandler in client-go's tools/cache/controller.go.
	app := obj.(*unstructured.Unstructured)
	j.removeRecord(ctx, string(app.GetUID()))
}
