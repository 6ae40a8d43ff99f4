// Package v1alpha1 is the WebApp API, served as phase4.example.com/v1alpha1.
//
// Four things are generated from types.go by `go generate ./...`: the CRD
// (config/crd), the deep copies (zz_generated.deepcopy.go), the clientset, and
// the lister with its informer (generated/).
//
// +k8s:deepcopy-gen=package
// +groupName=phase4.example.com
// +kubebuilder:object:generate=true
package v1alpha1
