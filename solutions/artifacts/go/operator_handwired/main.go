// Command webapp-operator keeps Pods and a DNS record for every WebApp.
//
// Everything that a framework would do is done by hand here: flags and clients
// in this file, handlers, queue and workers in controller.go, the reconcile in
// reconcile.go and pods.go, leader election in leader.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
	"phase4.example.com/workspace/operator_handwired/generated/clientset/versioned"
	informers "phase4.example.com/workspace/operator_handwired/generated/informers/externalversions"
)

// A stop may take five seconds: so long for the work in hand, and so long for
// releasing the lease.
const (
	stopWithin    = 3 * time.Second
	releaseWithin = time.Second
)

// errUnfinished says that a stop had to cut work off: a request that is on its way
// may be applied even now.
var errUnfinished = errors.New("stopped before what was in hand had been finished")

type options struct {
	kubeconfig  string
	workers     int
	resync      time.Duration
	resume      string
	probeAddr   string
	metricsAddr string
	election    electionOptions
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "path of a kubeconfig; in-cluster configuration if empty")
	flag.BoolVar(&o.election.enabled, "leader-elect", false, "act only while holding the lease")
	flag.DurationVar(&o.election.leaseDuration, "lease-duration", 15*time.Second, "how long others wait for a leader that does not renew")
	flag.DurationVar(&o.election.renewDeadline, "renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	flag.DurationVar(&o.election.retryPeriod, "retry-period", 2*time.Second, "pause between two tries to acquire or renew")
	flag.IntVar(&o.workers, "workers", 2, "reconciles at once")
	flag.DurationVar(&o.resync, "resync", 10*time.Minute, "how often every WebApp is looked at without an event")
	flag.StringVar(&o.resume, "resume", "", "edge mode: a folder that remembers the last event seen, to go on after it")
	flag.StringVar(&o.probeAddr, "health-probe-bind-address", "0", "address of /healthz and /readyz; 0 is off")
	flag.StringVar(&o.metricsAddr, "metrics-bind-address", "0", "address of /metrics; 0 is off")
	klog.InitFlags(nil)
	flag.Parse()

	ctx := klog.NewContext(context.Background(), klog.Background())
	err := run(ctx, o)
	if errors.Is(err, errUnfinished) {
		// No failure: whoever comes next finds what is missing.
		klog.ErrorS(err, "Whoever comes next finishes it")
		err = nil
	}
	klog.Flush()
	if err != nil {
		fmt.Fprintf(os.Stderr, "webapp-operator: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	terminated, stopListening := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stopListening()

	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The API server's own priority and fairness is the limit, not a guess of ours.
	config.QPS = -1
	webapps, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}

	var ready atomic.Bool
	if err := serve(o, &ready); err != nil {
		return err
	}
	if !waitForCRD(terminated, webapps) {
		return nil
	}
	ready.Store(true)

	work := func(ctx context.Context) error {
		return runController(ctx, terminated, kube, webapps, o)
	}
	if !o.election.enabled {
		return work(ctx)
	}
	return elect(ctx, terminated, rest.CopyConfig(config), o.election, work)
}

// runController works until SIGTERM (terminated: what is in hand is finished) or
// until ctx ends (the lease is lost: nothing more may be written). It returns
// errUnfinished where finishing took longer than stopWithin.
func runController(ctx, terminated context.Context, kube kubernetes.Interface, webapps versioned.Interface, o options) error {
	webappInformers := informers.NewSharedInformerFactory(webapps, o.resync)
	// Pods are watched whole, not by label: a Pod whose label was taken away is
	// still ours to put right. What nobody reads is not kept in memory.
	podInformers := coreinformers.NewSharedInformerFactoryWithOptions(kube, 0, coreinformers.WithTransform(withoutManagedFields))
	recordInformers := coreinformers.NewSharedInformerFactoryWithOptions(kube, 0, coreinformers.WithNamespace(dnsNamespace))
	if o.resume != "" {
		if err := resume(o.resume, kube, webapps, webappInformers, podInformers, recordInformers); err != nil {
			return err
		}
	}

	controller, err := NewController(kube, webapps,
		webappInformers.Phase4().V1alpha1().WebApps(), podInformers.Core().V1().Pods(), recordInformers.Core().V1().ConfigMaps())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	webappInformers.Start(ctx.Done())
	podInformers.Start(ctx.Done())
	recordInformers.Start(ctx.Done())

	defer context.AfterFunc(terminated, func() {
		select {
		case <-ctx.Done():
		case <-time.After(stopWithin):
			cancel(errUnfinished)
		}
	})()
	synced := controller.Run(ctx, terminated, o.workers)
	if errors.Is(context.Cause(ctx), errUnfinished) {
		return errUnfinished
	}
	if !synced && terminated.Err() == nil {
		return errors.New("the caches did not sync before the operator had to stop")
	}
	return nil
}

// withoutManagedFields drops what takes half of a Pod's memory and is never read here.
func withoutManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// waitForCRD returns once the API server serves WebApps, or false at SIGTERM. An
// operator that exits here would be restarted in a loop, and say less.
func waitForCRD(terminated context.Context, webapps versioned.Interface) bool {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 10 * time.Second}
	said := ""
	for {
		// With the context: a server that hangs must not keep the process from stopping.
		_, err := webapps.Discovery().ServerResourcesForGroupVersionWithContext(terminated, v1alpha1.SchemeGroupVersion.String())
		if err == nil {
			return true
		}
		reason := fmt.Sprintf("Waiting for the API server: %v", err)
		if apierrors.IsNotFound(err) {
			reason = "Waiting for the CRD webapps.phase4.example.com: apply config/crd"
		}
		if reason != said {
			klog.Info(reason)
			said = reason
		}
		select {
		case <-terminated.Done():
			return false
		case <-time.After(backoff.Step()):
		}
	}
}

// serve starts the probes and metrics that were asked for.
func serve(o options, ready *atomic.Bool) error {
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	probes.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "the CRD is missing, or the API server does not answer", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", metricsHandler())
	for _, endpoint := range []struct {
		address string
		handler http.Handler
	}{{o.probeAddr, probes}, {o.metricsAddr, metrics}} {
		if endpoint.address == "" || endpoint.address == "0" {
			continue
		}
		listener, err := net.Listen("tcp", endpoint.address)
		if err != nil {
			return err
		}
		go func() {
			server := &http.Server{Handler: endpoint.handler, ReadHeaderTimeout: 5 * time.Second}
			klog.ErrorS(server.Serve(listener), "Server stopped", "address", endpoint.address)
		}()
	}
	return nil
}
