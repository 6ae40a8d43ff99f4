package main

// controller-gen makes the CRD and the deep copies; code-generator the typed
// client, lister and informer. All four are committed, so that a reader can see
// them without running anything.

//go:generate go tool controller-gen crd object paths=./api/... output:crd:dir=config/crd
//go:generate go tool client-gen --go-header-file=config/header.txt --clientset-name=versioned --input-base= --input=phase4.example.com/workspace/operator_handwired/api/v1alpha1 --output-pkg=phase4.example.com/workspace/operator_handwired/generated/clientset --output-dir=generated/clientset
//go:generate go tool lister-gen --go-header-file=config/header.txt --output-pkg=phase4.example.com/workspace/operator_handwired/generated/listers --output-dir=generated/listers phase4.example.com/workspace/operator_handwired/api/v1alpha1
//go:generate go tool informer-gen --go-header-file=config/header.txt --versioned-clientset-package=phase4.example.com/workspace/operator_handwired/generated/clientset/versioned --listers-package=phase4.example.com/workspace/operator_handwired/generated/listers --output-pkg=phase4.example.com/workspace/operator_handwired/generated/informers --output-dir=generated/informers phase4.example.com/workspace/operator_handwired/api/v1alpha1
