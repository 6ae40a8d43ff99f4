package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	// phase4:solution
	"k8s.io/client-go/tools/cache"
	// phase4:end
)

// updated is called when an app in the cache has been replaced by a newer state.
func (j *janitor) updated(ctx context.Context, old, new *unstructured.Unstructured) {
	// phase4:solution
	if old.GetUID() != new.GetUID() {
		// Deleted and made again between two looks: the old one is gone.
		j.removeRecord(ctx, string(old.GetUID()))
	}
	// phase4:end
}

// deleted is called when an app is gone from the cache.
func (j *janitor) deleted(ctx context.Context, obj any) {
	// phase4:solution
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if app, ok := obj.(*unstructured.Unstructured); ok {
		j.removeRecord(ctx, string(app.GetUID()))
	}
	// phase4:stub
	// // What can obj be? See the comment at ResourceEventHandler in client-go's tools/cache/controller.go.
	// app := obj.(*unstructured.Unstructured)
	// j.removeRecord(ctx, string(app.GetUID()))
	// phase4:end
}
