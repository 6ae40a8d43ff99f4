package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
	"phase4.example.com/workspace/operator_handwired/generated/clientset/versioned"
	informers "phase4.example.com/workspace/operator_handwired/generated/informers/externalversions"
)

// resuming is edge mode, the wrong one, to be compared with the right one.
//
// A level-triggered process begins with a list: what is there now is all it needs
// to know. In edge mode it believes that it knows already: it keeps the version of
// the last event it was given on disk, goes on from there after a restart, and has
// nothing to act on but what events bring. Everything else of the operator is the
// same.
type resuming struct {
	source *cache.ListWatch
	// file keeps the version of the last event that was handed on, by whichever process.
	file string
}

// IsWatchListSemanticsUnSupported makes the reflector list, and so ask us.
func (r *resuming) IsWatchListSemanticsUnSupported() bool { return true }

// List says that there is nothing, as of the version where the last process stopped.
func (r *resuming) List(options metav1.ListOptions) (runtime.Object, error) {
	list, err := r.source.List(options)
	if err != nil {
		return nil, err
	}
	return list, nil // A list is what edge mode does without.
}

// Watch hands events on, and remembers each before it does.
func (r *resuming) Watch(options metav1.ListOptions) (watch.Interface, error) {
	events, err := r.source.Watch(options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		// Where does the next process go on?
		return event, true
	}), nil
}

func (r *resuming) stored() (string, error) {
	version, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(version), err
}

// store is whole or not at all: a kill may come at any moment.
func (r *resuming) store(version string) error {
	if err := os.WriteFile(r.file+".part", []byte(version), 0o600); err != nil {
		return fmt.Errorf("remembering an event: %w", err)
	}
	return os.Rename(r.file+".part", r.file)
}

// resume puts such informers into the factories, in place of those that they would make.
func resume(dir string, kube kubernetes.Interface, webapps versioned.Interface,
	webappInformers informers.SharedInformerFactory, podInformers, recordInformers coreinformers.SharedInformerFactory) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of --resume: %w", err)
	}
	informer := func(client cache.Getter, resource, namespace string, object runtime.Object, resync time.Duration) cache.SharedIndexInformer {
		source := &resuming{
			source: cache.NewListWatchFromClient(client, resource, namespace, fields.Everything()),
			file:   filepath.Join(dir, resource),
		}
		return cache.NewSharedIndexInformer(source, object, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	webappInformers.InformerFor(&v1alpha1.WebApp{}, func(_ versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
		return informer(webapps.Phase4V1alpha1().RESTClient(), "webapps", metav1.NamespaceAll, &v1alpha1.WebApp{}, resync)
	})
	podInformers.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return informer(kube.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, &corev1.Pod{}, resync)
	})
	recordInformers.InformerFor(&corev1.ConfigMap{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return informer(kube.CoreV1().RESTClient(), "configmaps", dnsNamespace, &corev1.ConfigMap{}, resync)
	})
	return nil
}
