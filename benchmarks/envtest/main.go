// Starts and stops controller-runtime's envtest (etcd and kube-apiserver) and
// prints how long each took, in seconds, as JSON. The binaries are those in
// KUBEBUILDER_ASSETS. What the embedded cluster's start is compared with.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func main() {
	environment := &envtest.Environment{}
	begun := time.Now()
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	started := time.Now()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"start": started.Sub(begun).Seconds(),
		"stop":  time.Since(started).Seconds(),
	})
}
