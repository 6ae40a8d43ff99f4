package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
)

const (
	kindWebApp   = "WebApp"
	recordPrefix = "record-"
)

// errWait means: what is wanted cannot be done yet, and no event may tell when.
var errWait = errors.New("not yet")

// reconcile compares what one WebApp wants with what exists and takes the steps
// between the two. It may be interrupted after any write and run again from the
// start: every write is either named after what it makes (a second create is
// answered AlreadyExists) or carries the UID or resourceVersion it was decided
// on (a second one is answered Conflict or NotFound).
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName) error {
	return errors.New("TODO: look the key up, and do what is missing")
}

// finalize removes the record, makes sure that it is gone, and only then lets
// the WebApp go. No child is made from here on.
func (c *Controller) finalize(ctx context.Context, webapp *v1alpha1.WebApp) error {
	return errors.New("TODO: remove the record, and then the finalizer")
}

// ensureRecord makes the DNS record, or puts its data right.
func (c *Controller) ensureRecord(ctx context.Context, webapp *v1alpha1.WebApp) error {
	return errors.New("TODO: make the record, or put it right")
}

// updateStatus writes the status if it changed. It speaks of the generation of
// the WebApp that everything above was decided on, so observedGeneration never
// runs ahead of the rest.
func (c *Controller) updateStatus(ctx context.Context, webapp *v1alpha1.WebApp, pods []*corev1.Pod, recordExists bool) error {
	return errors.New("TODO: say what is, and write it if it changed")
}

func recordName(webapp *v1alpha1.WebApp) string { return recordPrefix + string(webapp.UID) }

func uidOfRecord(name string) (string, bool) { return strings.CutPrefix(name, recordPrefix) }

func wantedReplicas(webapp *v1alpha1.WebApp) int32 {
	if webapp.Spec.Replicas == nil {
		return 1 // Stored before the schema had a default.
	}
	return *webapp.Spec.Replicas
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
