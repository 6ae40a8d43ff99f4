package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of WebApp.
const GroupName = "phase4.example.com"

// SchemeGroupVersion is the group and version that this package registers.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource qualifies a resource name with this group; the generated lister uses it.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
