// Command probe shows the deep copy and the generated client, informer and lister at work.
package main

// phase4:solution
import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
	"phase4.example.com/workspace/operator_handwired/generated/clientset/versioned"
	informers "phase4.example.com/workspace/operator_handwired/generated/informers/externalversions"
)

func main() {
	run := copies
	if len(os.Args) > 1 && os.Args[1] == "client" {
		run = client
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// copies prints, for each object in OBJECTS: as it was read, and, after the copy was
// changed in every part, the original and the copy.
func copies() error {
	var objects []v1alpha1.WebApp
	if err := json.Unmarshal([]byte(os.Getenv("OBJECTS")), &objects); err != nil {
		return err
	}
	for i := range objects {
		original := &objects[i]
		before, err := json.Marshal(original)
		if err != nil {
			return err
		}
		changed := original.DeepCopy()
		change(changed)
		line := map[string]any{"round_trip": json.RawMessage(before), "original": original, "copy": changed}
		if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func change(webapp *v1alpha1.WebApp) {
	webapp.Labels["team"] = "changed"
	webapp.Annotations["note"] = "changed"
	webapp.Finalizers[0] = "changed"
	webapp.Spec.Image = "changed"
	*webapp.Spec.Replicas = 49
	webapp.Status.Conditions[0].Message = "changed"
}

// client creates a WebApp NAME in NAMESPACE, writes its status and deletes it, and
// prints what the lister shows after each.
func client() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	namespace, name := os.Getenv("NAMESPACE"), os.Getenv("NAME")
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	clientset, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	informer := factory.Phase4().V1alpha1().WebApps()
	lister := informer.Lister().WebApps(namespace)
	events := make(chan struct{}, 1)
	heard := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { heard() },
		UpdateFunc: func(any, any) { heard() },
		DeleteFunc: func(any) { heard() },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return fmt.Errorf("the cache did not fill")
	}
	until := func(condition func(*v1alpha1.WebApp) bool) error {
		for {
			webapp, err := lister.Get(name)
			if err != nil {
				webapp = nil // Not in the cache: not yet, or no more.
			}
			if condition(webapp) {
				return nil
			}
			select {
			case <-events:
			case <-ctx.Done():
				return wait.ErrorInterrupted(ctx.Err())
			}
		}
	}

	webapps := clientset.Phase4V1alpha1().WebApps(namespace)
	made, err := webapps.Create(ctx, &v1alpha1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.WebAppSpec{Image: "shop:1", Host: "shop.example.com"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var seen *v1alpha1.WebApp
	if err := until(func(webapp *v1alpha1.WebApp) bool { seen = webapp; return webapp != nil }); err != nil {
		return err
	}
	tell(map[string]any{"stage": "created", "replicas": seen.Spec.Replicas})

	made.Status.ReadyReplicas = 1
	if _, err := webapps.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := until(func(webapp *v1alpha1.WebApp) bool { return webapp != nil && webapp.Status.ReadyReplicas == 1 }); err != nil {
		return err
	}
	all, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	tell(map[string]any{"stage": "ready", "listed": len(all)})

	if err := webapps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := until(func(webapp *v1alpha1.WebApp) bool { return webapp == nil }); err != nil {
		return err
	}
	tell(map[string]any{"stage": "gone"})
	return nil
}

func tell(line map[string]any) {
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err)
	}
}

// phase4:stub
// import "os"
//
// // copies: read the JSON list of WebApps in OBJECTS into your type. For each, print
// // one line: {"round_trip": as it was read, "original": …, "copy": …}, the last two
// // after a deep copy was changed in labels, annotations, finalizers, image, replicas
// // and the message of a condition.
// //
// // client: with the generated clientset, informer and lister, create a WebApp NAME in
// // NAMESPACE (image and host only), and print {"stage": "created", "replicas": N} as
// // the lister shows it; write readyReplicas 1 to its status, and print {"stage":
// // "ready"} when the lister shows that; delete it, and print {"stage": "gone"}.
// func main() {
// 	os.Exit(1)
// }
// phase4:end
