package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
// next leader never starts while this one still writes. Work that had to be cut
// off (errUnfinished) keeps the lease: the others wait it out. When the lease is
// lost, work's context ends at once: requests on their way are cancelled, and the
// process exits with errLostLease.
func elect(ctx, terminated context.Context, config *rest.Config, o electionOptions, work func(context.Context) error) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	// Half the renew deadline, and at least a second, for each request: one that hangs
	// must leave time for another.
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, leaseNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		config, o.renewDeadline,
	)
	if err != nil {
		return fmt.Errorf("preparing the lease: %w", err)
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Set by the first renewal; see deadlined.
	deadline := time.AfterFunc(math.MaxInt64, func() { end(errLostLease) })
	defer deadline.Stop()
	working := make(chan error, 1)
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: deadlined{lock, func(renewed time.Time) {
			deadline.Reset(time.Until(renewed.Add(o.renewDeadline)))
		}},
		// A Lease holds whole seconds, and client-go rounds down: for the others a
		// lease of 2.9 s would end after 2.
		LeaseDuration: (o.leaseDuration + time.Second - 1).Truncate(time.Second),
		RenewDeadline: o.renewDeadline,
		RetryPeriod:   o.retryPeriod,
		Name:          leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				close(started)
				klog.InfoS("Leading", "lease", leaseNamespace+"/"+leaseName, "identity", lock.Identity())
				working <- work(leading)
				// Nothing is written from here on: now the lease may go.
				end(nil)
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
	defer context.AfterFunc(terminated, func() {
		select {
		case <-started:
		default:
			end(nil)
		}
	})()

	elector.Run(ctx)
	// Run ends with ctx, or by itself where the lease could not be renewed.
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errLostLease) {
		return errLostLease
	}
	select {
	case <-started:
		if err := <-working; err != nil {
			return err
		}
	default:
		// Run starts OnStartedLeading and does not wait for it. If it comes now, its
		// context has ended, and it does nothing.
	}
	// Whether it worked or not: a SIGTERM may come when the lease is acquired and
	// nobody works yet, or before the answer that says so.
	handOver(lock, releaseWithin)
	return nil
}

// deadlined has the lease given up a renew deadline after the request that renewed it.
//
// client-go alone counts from the start of the next round of renewals, a retry
// period after the answer. The others count from when they see the lease
// renewed, which may be as soon as the request is sent: with a lease of 3 s, a
// deadline of 2.5 s and a retry period of 2 s there would be two leaders from 3 s
// to 4.5 s after it.
type deadlined struct {
	resourcelock.Interface
	renewed func(at time.Time)
}

func (l deadlined) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.dated(func() error { return l.Interface.Create(ctx, record) })
}

func (l deadlined) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.dated(func() error { return l.Interface.Update(ctx, record) })
}

func (l deadlined) dated(write func() error) error {
	began := time.Now()
	err := write()
	if err == nil {
		l.renewed(began)
	}
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
	for {
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
		switch {
		case apierrors.IsConflict(err):
			continue // A renewal that was on its way when it was cancelled has been applied.
		case err != nil && !apierrors.IsNotFound(err):
			klog.ErrorS(err, "The lease could not be released; others will wait it out")
		}
		return
	}
}
