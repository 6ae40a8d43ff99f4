package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Names that are stored in the cluster: changing one orphans what carries it.
const (
	// LabelWebApp is on every Pod of a WebApp; its value is the WebApp's name.
	LabelWebApp = GroupName + "/webapp"
	// FinalizerDNSRecord keeps a WebApp until its DNS record is gone.
	FinalizerDNSRecord = GroupName + "/dns-record"
	// ConditionReady is True only while every wanted Pod is Ready with the
	// wanted image and the DNS record exists.
	ConditionReady = "Ready"
)

// WebApp is a number of equal Pods and one DNS record that names them.
//
// Its short name is wa, it has a status subresource, and kubectl shows columns for
// host, wanted and ready replicas: markers say so to controller-gen.
//
// +genclient
// +kubebuilder:object:root=true
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebAppSpec   `json:"spec"`
	Status WebAppStatus `json:"status,omitempty"`
}

// WebAppSpec is what the user wants: image, replicas, host.
type WebAppSpec struct{}

// WebAppStatus is what the operator saw: observedGeneration, replicas, readyReplicas, conditions.
type WebAppStatus struct{}

// WebAppList is what a LIST returns.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}
