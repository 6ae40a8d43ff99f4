package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
)

// ensurePods brings the number of current Pods to what is wanted and returns
// those that exist and stay.
//
// Pods live in numbered slots, named after the WebApp's UID: a create that was
// already done, whether or not our cache has heard of it, is answered
// AlreadyExists, so no stale cache can make too many.
func (c *Controller) ensurePods(ctx context.Context, webapp *v1alpha1.WebApp) ([]*corev1.Pod, error) {
	return nil, errors.New("TODO: keep, discard, create")
}

// claimPods returns the Pods that this WebApp controls, adopting those that
// carry its label and have no controller, and putting the label back where it
// was taken off or changed.
func (c *Controller) claimPods(ctx context.Context, webapp *v1alpha1.WebApp) ([]*corev1.Pod, error) {
	return nil, errors.New("TODO: which Pods are this WebApp's?")
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
