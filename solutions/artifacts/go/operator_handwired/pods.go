package main

// phase4:solution 4.3.2
import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
)

// phase4:stub
// import (
// 	"context"
// 	"encoding/json"
// 	"errors"
// 	"fmt"

// 	corev1 "k8s.io/api/core/v1"
// 	apierrors "k8s.io/apimachinery/pkg/api/errors"
// 	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
// 	"k8s.io/apimachinery/pkg/types"

// 	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
// )
// phase4:end

// ensurePods brings the number of current Pods to what is wanted and returns
// those that exist and stay.
//
// Pods live in numbered slots, named after the WebApp's UID: a create that was
// already done, whether or not our cache has heard of it, is answered
// AlreadyExists, so no stale cache can make too many.
func (c *Controller) ensurePods(ctx context.Context, webapp *v1alpha1.WebApp) ([]*corev1.Pod, error) {
	// phase4:solution 4.3.2
	owned, err := c.claimPods(ctx, webapp)
	if err != nil {
		return slices.DeleteFunc(owned, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }), err
	}
	var keep, discard []*corev1.Pod
	terminating := map[string]bool{}
	for _, pod := range owned {
		switch {
		case pod.DeletionTimestamp != nil:
			terminating[pod.Name] = true
		case podFinished(pod) || podImage(pod) != webapp.Spec.Image:
			discard = append(discard, pod)
		default:
			keep = append(keep, pod)
		}
	}
	// Too many: the ones that are of least use go first.
	wanted := int(wantedReplicas(webapp))
	if len(keep) > wanted {
		slices.SortStableFunc(keep, func(a, b *corev1.Pod) int {
			return cmp.Or(-compareBool(podReady(a), podReady(b)), cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
		})
		discard = append(discard, keep[wanted:]...)
		keep = keep[:wanted]
	}
	if len(discard) > 0 {
		// A delete cannot be taken back: decide it on the live spec, not on a
		// cached one that may be older than what the user wants now.
		if err := c.confirmLive(ctx, webapp); err != nil {
			return append(keep, unfinished(discard)...), err
		}
	}
	var failed []error
	var left []*corev1.Pod
	for _, pod := range discard {
		err := c.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			// The name may be someone else's by now; the UID never is.
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("deleting Pod %s: %w", pod.Name, err))
			left = append(left, pod) // It stands, and the status says so.
		}
		terminating[pod.Name] = true
	}

	taken := terminating
	for _, pod := range keep {
		taken[pod.Name] = true
	}
	missing := wanted - len(keep)
	// Only the first `wanted` slots are ever filled: a slot whose Pod is still on
	// its way out is waited for (its DELETED event comes), never worked around.
	for slot := 0; slot < wanted && missing > 0; slot++ {
		name := podName(webapp, slot)
		if taken[name] {
			continue
		}
		missing--
		_, err := c.kube.CoreV1().Pods(webapp.Namespace).Create(ctx, newPod(webapp, name), metav1.CreateOptions{})
		switch {
		case err == nil:
		case apierrors.IsAlreadyExists(err):
			// Ours, and its event is on the way — or ours no longer, and only the
			// server can tell.
			if err := c.inspectSlot(ctx, webapp, name); err != nil {
				failed = append(failed, err)
			}
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return append(keep, unfinished(left)...), nil // Nothing more can be made here; the WebApp will be deleted too.
		default:
			// The next create would most likely fail alike; the retry backs off.
			failed = append(failed, fmt.Errorf("creating Pod %s: %w", name, err))
			return append(keep, unfinished(left)...), errors.Join(failed...)
		}
	}
	return append(keep, unfinished(left)...), errors.Join(failed...)
	// phase4:stub
	// return nil, errors.New("TODO: keep, discard, create")
	// phase4:end
}

// claimPods returns the Pods that this WebApp controls, adopting those that
// carry its label and have no controller, and putting the label back where it
// was taken off or changed.
func (c *Controller) claimPods(ctx context.Context, webapp *v1alpha1.WebApp) ([]*corev1.Pod, error) {
	// phase4:solution 4.3.2
	var claimed []*corev1.Pod
	var failed []error
	owned, err := c.podIndexer.ByIndex(byController, string(webapp.UID))
	if err != nil {
		return nil, err
	}
	for _, obj := range owned {
		pod := obj.(*corev1.Pod)
		if pod.Namespace != webapp.Namespace {
			continue // An owner reference reaches no other namespace.
		}
		if pod.Labels[v1alpha1.LabelWebApp] != webapp.Name && pod.DeletionTimestamp == nil {
			err := c.patchPod(ctx, pod, map[string]any{"labels": map[string]string{v1alpha1.LabelWebApp: webapp.Name}})
			if err != nil {
				failed = append(failed, fmt.Errorf("putting the label of Pod %s back: %w", pod.Name, err))
			}
		}
		claimed = append(claimed, pod)
	}
	orphans, err := c.podIndexer.ByIndex(byController, orphanKey(webapp.Namespace, webapp.Name))
	if err != nil {
		return nil, err
	}
	confirmed := false
	for _, obj := range orphans {
		pod := obj.(*corev1.Pod)
		if pod.DeletionTimestamp != nil {
			continue
		}
		// Adopting for an owner that is gone would hand the Pod to the garbage collector.
		if !confirmed {
			if err := c.confirmLive(ctx, webapp); err != nil {
				return claimed, err
			}
			confirmed = true
		}
		owners := append(slices.Clone(pod.OwnerReferences), *metav1.NewControllerRef(webapp, v1alpha1.SchemeGroupVersion.WithKind(kindWebApp)))
		// A list is replaced whole by a merge patch, so the resourceVersion makes
		// sure that nobody's reference is lost.
		err := c.patchPod(ctx, pod, map[string]any{"ownerReferences": owners, "resourceVersion": pod.ResourceVersion})
		if err != nil {
			if !apierrors.IsNotFound(err) {
				failed = append(failed, fmt.Errorf("adopting Pod %s: %w", pod.Name, err))
			}
			continue
		}
		claimed = append(claimed, pod)
	}
	slices.SortFunc(claimed, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return claimed, errors.Join(failed...)
	// phase4:stub
	// return nil, errors.New("TODO: which Pods are this WebApp's?")
	// phase4:end
}

// patchPod changes the named metadata and leaves everything else as it is. The
// UID in the patch is a precondition: the server refuses it for another object.
func (c *Controller) patchPod(ctx context.Context, pod *corev1.Pod, metadata map[string]any) error {
	metadata["uid"] = pod.UID
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = c.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// confirmLive asks the API server whether the WebApp is still the one that was
// decided on: the same object, the same generation, not being deleted.
func (c *Controller) confirmLive(ctx context.Context, webapp *v1alpha1.WebApp) error {
	live, err := c.webapps.Phase4V1alpha1().WebApps(webapp.Namespace).Get(ctx, webapp.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the live WebApp: %w", err)
	}
	if live.UID != webapp.UID || live.Generation != webapp.Generation || live.DeletionTimestamp != nil {
		return fmt.Errorf("the cached WebApp is older than the live one: %w", errWait)
	}
	return nil
}

// inspectSlot looks at the Pod that holds a slot's name and says what stands in
// the way, if anything does.
func (c *Controller) inspectSlot(ctx context.Context, webapp *v1alpha1.WebApp, name string) error {
	pod, err := c.kube.CoreV1().Pods(webapp.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("Pod %s has just gone: %w", name, errWait)
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s: %w", name, err)
	}
	if metav1.IsControlledBy(pod, webapp) && pod.DeletionTimestamp == nil {
		return nil
	}
	return fmt.Errorf("Pod %s holds the name of a slot and is not ours or is on its way out: %w", name, errWait)
}

func newPod(webapp *v1alpha1.WebApp, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:      name,
			Namespace: webapp.Namespace,
			Labels:    map[string]string{v1alpha1.LabelWebApp: webapp.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(webapp, v1alpha1.SchemeGroupVersion.WithKind(kindWebApp)),
			},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: webapp.Spec.Image}},
		},
	}
}

// podName is NAME-UUUUUUUU-SLOT: a WebApp that is made again under the same name
// has another UID, and never waits for the Pods of the one before. The name of a
// WebApp has at most 63 characters, that of a Pod may have 253.
func podName(webapp *v1alpha1.WebApp, slot int) string {
	return fmt.Sprintf("%s-%.8s-%d", webapp.Name, webapp.UID, slot)
}

// phase4:solution 4.3.2
// unfinished returns those that have not finished: the others stand for nothing, deleted or not.
func unfinished(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), podFinished)
}

// phase4:end
func podFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func podReady(pod *corev1.Pod) bool {
	if podFinished(pod) {
		return false // Whatever its last condition says.
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func podImage(pod *corev1.Pod) string {
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Image
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
