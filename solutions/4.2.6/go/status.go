package main

import (
	// phase4:solution
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	// phase4:end
	"k8s.io/client-go/tools/cache"
)

// handlerSynced is whether the handler has seen the whole initial list.
func handlerSynced(informer cache.SharedIndexInformer, registration cache.ResourceEventHandlerRegistration) bool {
	// phase4:solution
	return registration.HasSynced()
	// phase4:stub
	// panic("handlerSynced is not written yet")
	// phase4:end
}

// informerSynced is whether the cache has held the whole initial list.
func informerSynced(informer cache.SharedIndexInformer, registration cache.ResourceEventHandlerRegistration) bool {
	// phase4:solution
	return informer.HasSynced()
	// phase4:stub
	// panic("informerSynced is not written yet")
	// phase4:end
}

// versions are the names in the cache and their resourceVersions.
func versions(informer cache.SharedIndexInformer) map[string]string {
	found := map[string]string{}
	// phase4:solution
	for _, obj := range informer.GetStore().List() {
		configMap := obj.(*unstructured.Unstructured)
		found[configMap.GetName()] = configMap.GetResourceVersion()
	}
	// phase4:end
	return found
}
