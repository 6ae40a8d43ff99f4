package main

import (
	"k8s.io/client-go/tools/cache"
)

// handlerSynced is whether the handler has seen the whole initial list.
func handlerSynced(informer cache.SharedIndexInformer, registration cache.ResourceEventHandlerRegistration) bool {
	panic("handlerSynced is not written yet")
}

// informerSynced is whether the cache has held the whole initial list.
func informerSynced(informer cache.SharedIndexInformer, registration cache.ResourceEventHandlerRegistration) bool {
	panic("informerSynced is not written yet")
}

// versions are the names in the cache and their resourceVersions.
func versions(informer cache.SharedIndexInformer) map[string]string {
	found := map[string]string{}
	return found
}
