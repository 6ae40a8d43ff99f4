// Package webapp holds what is made from the type in api/v1alpha1. `go generate .`
// makes the CRD (../crd.yaml), the deep copies, the client, the lister and the informer.
package webapp

//go:generate sh -c "go tool controller-gen crd paths=./api/... output:crd:stdout > ../crd.yaml"
//go:generate go tool controller-gen object paths=./api/...
//go:generate go tool client-gen --go-header-file=config/header.txt --clientset-name=versioned --input-base= --input=phase4.example.com/webapp-operator/api/v1alpha1 --output-pkg=phase4.example.com/webapp-operator/generated/clientset --output-dir=generated/clientset
//go:generate go tool lister-gen --go-header-file=config/header.txt --output-pkg=phase4.example.com/webapp-operator/generated/listers --output-dir=generated/listers phase4.example.com/webapp-operator/api/v1alpha1
//go:generate go tool informer-gen --go-header-file=config/header.txt --versioned-clientset-package=phase4.example.com/webapp-operator/generated/clientset/versioned --listers-package=phase4.example.com/webapp-operator/generated/listers --output-pkg=phase4.example.com/webapp-operator/generated/informers --output-dir=generated/informers phase4.example.com/webapp-operator/api/v1alpha1
