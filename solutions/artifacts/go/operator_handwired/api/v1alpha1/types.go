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

// phase4:solution 4.3.1

// WebApp is a number of equal Pods and one DNS record that names them.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wa
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="a name has at most 63 characters, as the value of a label"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec WebAppSpec `json:"spec"`
	// +optional
	Status WebAppStatus `json:"status,omitempty"`
}

// WebAppSpec is what the user wants.
type WebAppSpec struct {
	// Image that every Pod runs.
	// +required
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`

	// Replicas is a pointer so that an unset value is left to the server's default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	Replicas *int32 `json:"replicas,omitempty"`

	// Host is the DNS name of the record; the record's identity, so it never changes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="host cannot be changed after creation"
	Host string `json:"host"`
}

// WebAppStatus is what the operator saw, and which generation that speaks of.
type WebAppStatus struct {
	// ObservedGeneration is never raised before what the rest of the status claims is true of it.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas counts the Pods that exist and are not being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas counts those of them that are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// phase4:stub
// // WebApp is a number of equal Pods and one DNS record that names them.
// //
// // Its short name is wa, it has a status subresource, and kubectl shows columns for
// // host, wanted and ready replicas: markers say so to controller-gen.
// //
// // +genclient
// // +kubebuilder:object:root=true
// type WebApp struct {
// 	metav1.TypeMeta   `json:",inline"`
// 	metav1.ObjectMeta `json:"metadata,omitempty"`
//
// 	Spec   WebAppSpec   `json:"spec"`
// 	Status WebAppStatus `json:"status,omitempty"`
// }
//
// // WebAppSpec is what the user wants: image, replicas, host.
// type WebAppSpec struct{}
//
// // WebAppStatus is what the operator saw: observedGeneration, replicas, readyReplicas, conditions.
// type WebAppStatus struct{}
// phase4:end

// WebAppList is what a LIST returns.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}
