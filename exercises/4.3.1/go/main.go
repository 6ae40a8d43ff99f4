// Command probe shows the deep copy and the generated client, informer and lister at work.
package main

import "os"

// copies: read the JSON list of WebApps in OBJECTS into your type. For each, print
// one line: {"round_trip": as it was read, "original": …, "copy": …}, the last two
// after a deep copy was changed in labels, annotations, finalizers, image, replicas
// and the message of a condition.
//
// client: with the generated clientset, informer and lister, create a WebApp NAME in
// NAMESPACE (image and host only), and print {"stage": "created", "replicas": N} as
// the lister shows it; write readyReplicas 1 to its status, and print {"stage":
// "ready"} when the lister shows that; delete it, and print {"stage": "gone"}.
func main() {
	os.Exit(1)
}
