// Package envtest runs the operator against envtest's control plane, as an ordinary
// project's test suite would: a real etcd and kube-apiserver, started for the tests and gone
// after them.
//
//	export KUBEBUILDER_ASSETS=$(./phase4 assets)
//	OPERATOR="/tmp/webapp-operator" go test -C examples/envtest ./...
//
// OPERATOR is the command to test, in any language; it is given KUBECONFIG. CRDS is the
// folder of the CRD, the workspace's where it is left out.
//
// A kubebuilder project starts its controller inside the test's process instead. Nothing else
// would differ: envtest has no kube-controller-manager and no kubelet, so no owner reference
// is followed here and no Pod is ever Ready.
package envtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long the operator has for one step.
const patience = 20 * time.Second

var server client.Client

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	command := strings.Fields(os.Getenv("OPERATOR"))
	if len(command) == 0 {
		return 0, fmt.Errorf("OPERATOR names no command")
	}
	crds := os.Getenv("CRDS")
	if crds == "" {
		crds = filepath.Join("..", "..", "workspace", "operator_handwired", "config", "crd")
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{crds}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		return 0, fmt.Errorf("starting the control plane: %w", err)
	}
	defer func() {
		if stopping := environment.Stop(); err == nil {
			err = stopping
		}
	}()
	if server, err = client.New(config, client.Options{}); err != nil {
		return 0, err
	}
	for _, name := range []string{"dns", "phase4-system", "lab"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err = server.Create(context.Background(), namespace); err != nil {
			return 0, err
		}
	}
	user, err := environment.AddUser(envtest.User{Name: "operator", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return 0, err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "envtest")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "kubeconfig")
	if err = os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return 0, err
	}

	operator := exec.Command(command[0], command[1:]...)
	operator.Env = append(os.Environ(), "KUBECONFIG="+path)
	operator.Stderr = os.Stderr
	if err = operator.Start(); err != nil {
		return 0, fmt.Errorf("starting the operator: %w", err)
	}
	defer func() {
		_ = operator.Process.Signal(syscall.SIGTERM)
		if ended := operator.Wait(); err == nil && ended != nil {
			err = fmt.Errorf("the operator, told to stop: %w", ended)
		}
	}()
	return m.Run(), nil
}

// webapp makes one of that name; without replicas its spec has none.
func webapp(name string, replicas ...int64) *unstructured.Unstructured {
	spec := map[string]any{"image": "shop:1", "host": "shop.example.com"}
	if len(replicas) > 0 {
		spec["replicas"] = replicas[0]
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	made.SetAPIVersion("phase4.example.com/v1alpha1")
	made.SetKind("WebApp")
	made.SetNamespace("lab")
	made.SetName(name)
	return made
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := server.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until right says so of the WebApp as it is stored.
func eventually(t *testing.T, app *unstructured.Unstructured, what string, right func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			if err := server.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
				return false, err
			}
			return right(), nil
		})
	if err != nil {
		t.Fatalf("%s: %v; the WebApp is %v", what, err, app.Object)
	}
}

func podsOf(t *testing.T, app *unstructured.Unstructured) []corev1.Pod {
	t.Helper()
	var all corev1.PodList
	if err := server.List(t.Context(), &all, client.InNamespace(app.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	var mine []corev1.Pod
	for _, pod := range all.Items {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.UID == app.GetUID() {
			mine = append(mine, pod)
		}
	}
	return mine
}

// What was left out is filled in by the schema, and the operator goes by that.
func TestDefaults(t *testing.T) {
	app := webapp("defaulted")
	create(t, app)
	if replicas, _, _ := unstructured.NestedInt64(app.Object, "spec", "replicas"); replicas != 1 {
		t.Fatalf("the API server stored %d replicas", replicas)
	}
	var before []corev1.Pod
	eventually(t, app, "one Pod", func() bool {
		before = podsOf(t, app)
		return len(before) == 1
	})
	// The Pod has fields that nobody sent. Is it still the one that the operator wants?
	if before[0].Spec.TerminationGracePeriodSeconds == nil {
		t.Fatal("the API server filled nothing in")
	}
	eventually(t, app, "a status for the Pod", func() bool {
		count, _, _ := unstructured.NestedInt64(app.Object, "status", "replicas")
		return count == 1
	})
	if after := podsOf(t, app); len(after) != 1 || after[0].UID != before[0].UID {
		t.Fatalf("the Pod was made again: %v", after)
	}
}

func TestScales(t *testing.T) {
	app := webapp("scaled", 3)
	create(t, app)
	eventually(t, app, "three Pods", func() bool { return len(podsOf(t, app)) == 3 })
}

// The status has a door of its own: nothing written to the main resource changes it.
func TestStatus(t *testing.T) {
	app := webapp("status", 1)
	create(t, app)
	eventually(t, app, "a status", func() bool {
		observed, _, _ := unstructured.NestedInt64(app.Object, "status", "observedGeneration")
		return observed == app.GetGeneration()
	})
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":7}}`))
	if err := server.Patch(t.Context(), app, patch); err != nil {
		t.Fatal(err)
	}
	if count, _, _ := unstructured.NestedInt64(app.Object, "status", "replicas"); count == 7 {
		t.Fatal("the main resource took a status")
	}
}

func TestSchemaRefuses(t *testing.T) {
	if err := server.Create(t.Context(), webapp("refused", 51)); !apierrors.IsInvalid(err) {
		t.Fatalf("51 replicas: %v", err)
	}
}

func TestStaleWriteIsAConflict(t *testing.T) {
	app := webapp("stale", 1)
	create(t, app)
	stale := app.DeepCopy()
	eventually(t, app, "the finalizer", func() bool { return len(app.GetFinalizers()) > 0 })
	stale.SetLabels(map[string]string{"written": "late"})
	if err := server.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Fatalf("a write on resourceVersion %s: %v", stale.GetResourceVersion(), err)
	}
}
