package main

// phase4:solution 4.3.2
import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
)

// phase4:stub
// import (
// 	"context"
// 	"errors"
// 	"fmt"
// 	"strings"

// 	corev1 "k8s.io/api/core/v1"
// 	"k8s.io/client-go/tools/cache"

// 	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
// )
// phase4:end

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
	// phase4:solution 4.3.2
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
		webapp.Finalizers = append(webapp.Finalizers, v1alpha1.FinalizerDNSRecord)
		webapp, err = c.webapps.Phase4V1alpha1().WebApps(key.Namespace).Update(ctx, webapp, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("storing the finalizer: %w", err)
		}
	}

	recordErr := c.ensureRecord(ctx, webapp)
	pods, podsErr := c.ensurePods(ctx, webapp)
	// The status is written even after an error: it says what is, not what was tried.
	statusErr := c.updateStatus(ctx, webapp, pods, recordErr == nil)
	return errors.Join(recordErr, podsErr, statusErr)
	// phase4:stub
	// return errors.New("TODO: look the key up, and do what is missing")
	// phase4:end
}

// finalize removes the record, makes sure that it is gone, and only then lets
// the WebApp go. No child is made from here on.
func (c *Controller) finalize(ctx context.Context, webapp *v1alpha1.WebApp) error {
	// phase4:solution 4.3.2
	at := slices.Index(webapp.Finalizers, v1alpha1.FinalizerDNSRecord)
	if at < 0 {
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
	webapp.Finalizers = slices.Delete(webapp.Finalizers, at, at+1)
	_, err := c.webapps.Phase4V1alpha1().WebApps(webapp.Namespace).Update(ctx, webapp, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
	// phase4:stub
	// return errors.New("TODO: remove the record, and then the finalizer")
	// phase4:end
}

// ensureRecord makes the DNS record, or puts its data right.
func (c *Controller) ensureRecord(ctx context.Context, webapp *v1alpha1.WebApp) error {
	// phase4:solution 4.3.2
	records := c.kube.CoreV1().ConfigMaps(dnsNamespace)
	wanted := map[string]string{
		"host":  webapp.Spec.Host,
		"owner": webapp.Namespace + "/" + webapp.Name,
	}
	record, err := c.recordLister.ConfigMaps(dnsNamespace).Get(recordName(webapp))
	if apierrors.IsNotFound(err) {
		_, err = records.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: recordName(webapp), Namespace: dnsNamespace},
			Data:       wanted,
		}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return wrap(err, "creating the DNS record")
		}
		// Ours, from a run whose answer or event has not reached us.
		record, err = records.Get(ctx, recordName(webapp), metav1.GetOptions{})
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
	record = record.DeepCopy()
	if record.Data == nil {
		record.Data = map[string]string{}
	}
	maps.Copy(record.Data, wanted) // The other keys are not ours to remove.
	_, err = records.Update(ctx, record, metav1.UpdateOptions{})
	return wrap(err, "putting the DNS record right")
	// phase4:stub
	// return errors.New("TODO: make the record, or put it right")
	// phase4:end
}

// updateStatus writes the status if it changed. It speaks of the generation of
// the WebApp that everything above was decided on, so observedGeneration never
// runs ahead of the rest.
func (c *Controller) updateStatus(ctx context.Context, webapp *v1alpha1.WebApp, pods []*corev1.Pod, recordExists bool) error {
	// phase4:solution 4.3.2
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
	webapp = webapp.DeepCopy()
	webapp.Status = *status
	_, err := c.webapps.Phase4V1alpha1().WebApps(webapp.Namespace).UpdateStatus(ctx, webapp, metav1.UpdateOptions{})
	return wrap(err, "writing the status")
	// phase4:stub
	// return errors.New("TODO: say what is, and write it if it changed")
	// phase4:end
}

// phase4:solution 4.3.2
// holds says whether each of the wanted pairs is in the data, whatever else is there.
func holds(data, wanted map[string]string) bool {
	for key, value := range wanted {
		if found, there := data[key]; !there || found != value {
			return false
		}
	}
	return true
}

// phase4:end
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
