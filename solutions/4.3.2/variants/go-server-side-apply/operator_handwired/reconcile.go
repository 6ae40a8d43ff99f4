package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
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
	cached, err := c.webappLister.WebApps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // The finalizer saw to the record; the garbage collector sees to the Pods.
	}
	if err != nil {
		return err
	}
	// The cache's object is shared with every other reader.
	webapp := cached.DeepCopy()

	if webapp.DeletionTimestamp != nil {
		return c.finalize(ctx, webapp)
	}
	// The finalizer is stored before the record is made: a delete that comes in
	// between must wait for us.
	if !slices.Contains(webapp.Finalizers, v1alpha1.FinalizerDNSRecord) {
		webapp, err = c.applyFinalizers(ctx, webapp, []string{v1alpha1.FinalizerDNSRecord})
		if err != nil {
			return fmt.Errorf("storing the finalizer: %w", err)
		}
	}

	recordErr := c.ensureRecord(ctx, webapp)
	pods, podsErr := c.ensurePods(ctx, webapp)
	// The status is written even after an error: it says what is, not what was tried.
	statusErr := c.updateStatus(ctx, webapp, pods, recordErr == nil)
	return errors.Join(recordErr, podsErr, statusErr)
}

// finalize removes the record, makes sure that it is gone, and only then lets
// the WebApp go. No child is made from here on.
func (c *Controller) finalize(ctx context.Context, webapp *v1alpha1.WebApp) error {
	if !slices.Contains(webapp.Finalizers, v1alpha1.FinalizerDNSRecord) {
		return nil // Others' finalizers are theirs to remove.
	}
	records := c.kube.CoreV1().ConfigMaps(dnsNamespace)
	name := recordName(webapp)
	if err := records.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the DNS record: %w", err)
	}
	// A DELETE that was accepted is not yet an object that is gone: the record
	// may have finalizers of its own. The cache may lag, so ask the server.
	if _, err := records.Get(ctx, name, metav1.GetOptions{}); err == nil {
		return fmt.Errorf("DNS record %s is still there: %w", name, errWait)
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("confirming that the DNS record is gone: %w", err)
	}
	_, err := c.applyFinalizers(ctx, webapp, nil)
	// With a UID in it, an apply to an object that is gone is a Conflict.
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// ensureRecord makes the DNS record, or puts its data right.
func (c *Controller) ensureRecord(ctx context.Context, webapp *v1alpha1.WebApp) error {
	records := c.kube.CoreV1().ConfigMaps(dnsNamespace)
	wanted := map[string]string{
		"host":  webapp.Spec.Host,
		"owner": webapp.Namespace + "/" + webapp.Name,
	}
	record, err := c.recordLister.ConfigMaps(dnsNamespace).Get(recordName(webapp))
	if apierrors.IsNotFound(err) {
		record, err = records.Apply(ctx, coreac.ConfigMap(recordName(webapp), dnsNamespace).WithData(wanted), applyOptions)
	}
	if err != nil {
		return wrap(err, "reading the DNS record")
	}
	if record.DeletionTimestamp != nil {
		return fmt.Errorf("DNS record %s is being deleted: %w", record.Name, errWait)
	}
	if holds(record.Data, wanted) {
		return nil
	}
	_, err = records.Apply(ctx, coreac.ConfigMap(recordName(webapp), dnsNamespace).WithData(wanted), applyOptions)
	return wrap(err, "putting the DNS record right")
}

// applyFinalizers sets ours, or takes it away; those of others are not in what we own.
func (c *Controller) applyFinalizers(ctx context.Context, webapp *v1alpha1.WebApp, finalizers []string) (*v1alpha1.WebApp, error) {
	metadata := map[string]any{"name": webapp.Name, "uid": webapp.UID}
	if len(finalizers) > 0 {
		metadata["finalizers"] = finalizers
	}
	return c.applyWebApp(ctx, webapp, map[string]any{"metadata": metadata})
}

func (c *Controller) applyWebApp(ctx context.Context, webapp *v1alpha1.WebApp, fields map[string]any, subresources ...string) (*v1alpha1.WebApp, error) {
	fields["apiVersion"], fields["kind"] = v1alpha1.SchemeGroupVersion.String(), kindWebApp
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return c.webapps.Phase4V1alpha1().WebApps(webapp.Namespace).Patch(ctx, webapp.Name, types.ApplyPatchType, body, applyOptions.ToPatchOptions(), subresources...)
}

// updateStatus writes the status if it changed. It speaks of the generation of
// the WebApp that everything above was decided on, so observedGeneration never
// runs ahead of the rest.
func (c *Controller) updateStatus(ctx context.Context, webapp *v1alpha1.WebApp, pods []*corev1.Pod, recordExists bool) error {
	status := webapp.Status.DeepCopy()
	status.ObservedGeneration = webapp.Generation
	status.Replicas, status.ReadyReplicas = int32(len(pods)), 0
	current := int32(0)
	for _, pod := range pods {
		if !podReady(pod) {
			continue
		}
		status.ReadyReplicas++
		if podImage(pod) == webapp.Spec.Image {
			current++
		}
	}
	wanted := wantedReplicas(webapp)
	ready := metav1.Condition{
		Type:               v1alpha1.ConditionReady,
		ObservedGeneration: webapp.Generation,
		Status:             metav1.ConditionFalse,
	}
	switch {
	case !recordExists:
		ready.Reason, ready.Message = "RecordMissing", "The DNS record does not exist yet."
	case current < wanted:
		ready.Reason = "PodsNotReady"
		ready.Message = fmt.Sprintf("%d of %d Pods are Ready with the wanted image.", current, wanted)
	case status.Replicas > wanted:
		ready.Reason = "TooManyPods"
		ready.Message = fmt.Sprintf("%d Pods exist, %d are wanted.", status.Replicas, wanted)
	default:
		ready.Status, ready.Reason = metav1.ConditionTrue, "Available"
		ready.Message = fmt.Sprintf("%d of %d Pods are Ready and the DNS record exists.", current, wanted)
	}
	// Moves lastTransitionTime only when the status changes.
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(*status, webapp.Status) {
		return nil
	}
	_, err := c.applyWebApp(ctx, webapp, map[string]any{
		"metadata": map[string]any{"name": webapp.Name, "uid": webapp.UID},
		"status":   status,
	}, "status")
	return wrap(err, "writing the status")
}

// holds says whether each of the wanted pairs is in the data, whatever else is there.
func holds(data, wanted map[string]string) bool {
	for key, value := range wanted {
		if found, there := data[key]; !there || found != value {
			return false
		}
	}
	return true
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
