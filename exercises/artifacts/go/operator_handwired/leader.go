package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	leaseName      = "webapp-operator"
	leaseNamespace = "phase4-system"
)

type electionOptions struct {
	enabled                                   bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

// errLostLease ends the process: what it was doing when the lease went cannot be
// taken up again in the same process with any certainty.
var errLostLease = errors.New("the lease was lost: another replica may lead by now")

// elect runs work while this process holds the lease.
//
// At SIGTERM work finishes first and the lease is released after it, so that the
// next leader never starts while this one still writes. When the lease is lost,
// work's context ends at once: requests on their way are cancelled, and the
// process exits with errLostLease.
func elect(ctx, terminated context.Context, config *rest.Config, o electionOptions, work func(context.Context) error) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	// Half the renew deadline for each request: one that hangs must leave time for another.
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, leaseNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		config, o.renewDeadline,
	)
	if err != nil {
		return fmt.Errorf("preparing the lease: %w", err)
	}

	ctx, release := context.WithCancel(ctx)
	defer release()
	working := make(chan error, 1)
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: o.leaseDuration,
		RenewDeadline: o.renewDeadline,
		RetryPeriod:   o.retryPeriod,
		Name:          leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(started)
				klog.InfoS("Leading", "lease", leaseNamespace+"/"+leaseName, "identity", lock.Identity())
				working <- work(leading)
				// Nothing is written from here on: now the lease may go.
				release()
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				klog.InfoS("Leader seen", "identity", identity)
			},
		},
	})
	if err != nil {
		return err
	}
	// A replica that never led has nothing to finish.
	stop := context.AfterFunc(terminated, func() {
		select {
		case <-started:
		default:
			release()
		}
	})
	defer stop()

	elector.Run(ctx)
	select {
	case <-started:
	default:
		return nil
	}
	if ctx.Err() == nil {
		return errLostLease
	}
	err = <-working
	handOver(lock, o.renewDeadline)
	return err
}

// handOver releases the lease, so that the next leader need not wait it out.
//
// client-go's ReleaseOnCancel does this also where a renewal failed, and before
// it ends the work's context: in front of a server that hangs, this process would
// go on writing for as long as that takes, while another one leads.
func handOver(lock resourcelock.Interface, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err == nil && record.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1,
			AcquireTime:          now,
			RenewTime:            now,
			LeaderTransitions:    record.LeaderTransitions,
		})
	}
	if err != nil {
		klog.ErrorS(err, "The lease could not be released; others will wait it out")
	}
}
