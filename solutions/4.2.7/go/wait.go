package main

import (
	"context"
	// phase4:solution

	"k8s.io/client-go/tools/cache"
	// phase4:end
)

// waitForCaches waits until it is safe to conclude anything; false: told to stop
// before that.
func (p *pruner) waitForCaches(ctx context.Context) bool {
	// phase4:solution
	synced := []cache.InformerSynced{}
	for _, registration := range p.registrations {
		synced = append(synced, registration.HasSynced)
	}
	return cache.WaitForCacheSync(ctx.Done(), synced...)
	// phase4:stub
	// return true
	// phase4:end
}
