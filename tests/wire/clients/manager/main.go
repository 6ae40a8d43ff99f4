// Manager is a controller-runtime manager with one controller: it gives each
// configmap labelled wire=yes a copy, named <name>-copy and owned by it. Its
// client reads from the manager's cache and writes protobuf, as it does by default.
package main

import (
	"context"
	"flag"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type copier struct{ client.Client }

func (c copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels["wire"] != "yes" {
		return ctrl.Result{}, nil
	}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: original.Name + "-copy", Namespace: original.Namespace,
	}}
	made.Data = original.Data
	if err := controllerutil.SetControllerReference(&original, made, c.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	err := c.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return ctrl.Result{}, err
}

func main() {
	namespace := flag.String("namespace", "default", "whose configmaps")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	manager, err := ctrl.NewManager(config.GetConfigOrDie(), ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{*namespace: {}}},
	})
	if err == nil {
		err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).
			Complete(copier{manager.GetClient()})
	}
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		ctrl.Log.Error(err, "the manager ended")
		os.Exit(1)
	}
}
