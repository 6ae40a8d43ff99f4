// phase4:omit 4.3.2
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"phase4.example.com/workspace/operator_handwired/api/v1alpha1"
	"phase4.example.com/workspace/operator_handwired/generated/clientset/versioned/fake"
	informers "phase4.example.com/workspace/operator_handwired/generated/informers/externalversions"
)

// soon is for what must happen: a busy machine takes its time.
const soon = 20 * time.Second

// world is a controller with caches that a test fills, and clients that note what is asked of them.
type world struct {
	*Controller
	kube    *kubefake.Clientset
	webapps *fake.Clientset
}

func newWorld(t *testing.T, webapp *v1alpha1.WebApp, record *corev1.ConfigMap, pods ...*corev1.Pod) world {
	t.Helper()
	kube, webapps := kubefake.NewClientset(), fake.NewSimpleClientset(webapp)
	webappInformers := informers.NewSharedInformerFactory(webapps, 0)
	coreInformers := coreinformers.NewSharedInformerFactory(kube, 0)
	c, err := NewController(kube, webapps, webappInformers.Phase4().V1alpha1().WebApps(),
		coreInformers.Core().V1().Pods(), coreInformers.Core().V1().ConfigMaps())
	if err != nil {
		t.Fatal(err)
	}
	c.synced = nil // The caches are what the test puts in.
	add := func(indexer cache.Indexer, obj any, toServer func() error) {
		if err := indexer.Add(obj); err != nil {
			t.Fatal(err)
		}
		if err := toServer(); err != nil {
			t.Fatal(err)
		}
	}
	add(c.webappIndexer, webapp, func() error { return nil })
	if record != nil {
		add(coreInformers.Core().V1().ConfigMaps().Informer().GetIndexer(), record, func() error { return kube.Tracker().Add(record) })
	}
	for _, pod := range pods {
		add(c.podIndexer, pod, func() error { return kube.Tracker().Add(pod) })
	}
	kube.ClearActions()
	webapps.ClearActions()
	return world{c, kube, webapps}
}

func (w world) reconcile(t *testing.T) {
	t.Helper()
	if err := w.Controller.reconcile(t.Context(), cache.ObjectName{Namespace: "shops", Name: "shop"}); err != nil {
		t.Fatal(err)
	}
}

// writes are the verbs and resources of what was written, in order.
func (w world) writes(of ...clienttesting.Action) []string {
	var found []string
	for _, action := range of {
		if slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			continue
		}
		name := action.GetResource().Resource
		if action.GetSubresource() != "" {
			name += "/" + action.GetSubresource()
		}
		found = append(found, action.GetVerb()+" "+name)
	}
	return found
}

func (w world) status(t *testing.T) v1alpha1.WebAppStatus {
	t.Helper()
	live, err := w.webapps.Phase4V1alpha1().WebApps("shops").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live.Status
}

func newWebApp(replicas int32) *v1alpha1.WebApp {
	return &v1alpha1.WebApp{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shops", Name: "shop", UID: "0123456789", Generation: 2,
			Finalizers: []string{v1alpha1.FinalizerDNSRecord},
		},
		Spec: v1alpha1.WebAppSpec{Image: "shop:1", Host: "shop.example.com", Replicas: &replicas},
	}
}

func newRecord(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "dns", Name: "record-0123456789"}, Data: data}
}

func rightRecord() *corev1.ConfigMap {
	return newRecord(map[string]string{"host": "shop.example.com", "owner": "shops/shop"})
}

func readyPod(name string) *corev1.Pod {
	pod := newPod(newWebApp(1), name)
	pod.UID, pod.ResourceVersion = types.UID("uid-"+name), "7"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

func TestKeysOfPod(t *testing.T) {
	c := newWorld(t, newWebApp(1), nil).Controller
	owned, orphan, others, labelled := readyPod("a"), readyPod("b"), readyPod("c"), readyPod("d")
	orphan.OwnerReferences[0].Controller = nil
	others.OwnerReferences[0].Kind = "ReplicaSet"
	labelled.OwnerReferences, labelled.Labels = nil, map[string]string{v1alpha1.LabelWebApp: "beta"}
	for _, one := range []struct {
		pod  *corev1.Pod
		want string
	}{{owned, "[shops/shop]"}, {orphan, "[shops/shop]"}, {others, "[]"}, {labelled, "[shops/beta]"}, {&corev1.Pod{}, "[]"}} {
		if got := fmt.Sprint(c.keysOfPod(one.pod)); got != one.want {
			t.Errorf("%s: keys %s, want %s", one.pod.Name, got, one.want)
		}
	}
	if keys := c.keysOfRecord(rightRecord()); len(keys) != 1 || keys[0].Name != "shop" {
		t.Errorf("the record's keys are %v", keys)
	}
	if keys := c.keysOfRecord(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}}); len(keys) != 0 {
		t.Errorf("another ConfigMap's keys are %v", keys)
	}
}

func TestHandlersAddBothStatesAndTombstones(t *testing.T) {
	c := newWorld(t, newWebApp(1), nil).Controller
	before, after := readyPod("a"), readyPod("a")
	before.OwnerReferences, after.OwnerReferences = nil, nil
	after.Labels = map[string]string{v1alpha1.LabelWebApp: "beta"}
	handler := c.enqueuer(c.keysOfPod)
	handler.OnUpdate(before, after)
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "shops/c", Obj: readyPod("c")})
	if got := c.queue.Len(); got != 2 {
		t.Errorf("%d keys are queued, want those of both states, once each", got)
	}
}

func TestANewWebAppGetsItsFinalizerFirst(t *testing.T) {
	webapp := newWebApp(1)
	webapp.Finalizers = nil
	w := newWorld(t, webapp, nil)
	w.reconcile(t)
	if got := fmt.Sprint(w.writes(w.webapps.Actions()...)); got != "[update webapps update webapps/status]" {
		t.Errorf("WebApps: %s", got)
	}
	if got := fmt.Sprint(w.writes(w.kube.Actions()...)); got != "[create configmaps create pods]" {
		t.Errorf("children: %s", got)
	}
}

func TestAWebAppThatIsRightTakesNoWrite(t *testing.T) {
	w := newWorld(t, newWebApp(1), rightRecord(), readyPod("shop-01234567-0"))
	w.reconcile(t)
	live, err := w.webapps.Phase4V1alpha1().WebApps("shops").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || live.Status.ReadyReplicas != 1 || live.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Fatalf("status %+v, %v", live.Status, err)
	}
	if err := w.webappIndexer.Update(live); err != nil {
		t.Fatal(err)
	}
	w.webapps.ClearActions()
	w.kube.ClearActions()
	w.reconcile(t)
	if got := append(w.writes(w.webapps.Actions()...), w.writes(w.kube.Actions()...)...); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
}

func TestARecordWithOtherDataOrNoneIsPutRight(t *testing.T) {
	for _, data := range []map[string]string{nil, {}, {"host": "elsewhere"}} {
		w := newWorld(t, newWebApp(0), newRecord(data))
		w.reconcile(t)
		live, err := w.kube.CoreV1().ConfigMaps("dns").Get(t.Context(), "record-0123456789", metav1.GetOptions{})
		if err != nil || fmt.Sprint(live.Data) != fmt.Sprint(rightRecord().Data) {
			t.Errorf("data %v became %v, %v", data, live.Data, err)
		}
	}
}

func TestAPodIsDeletedByItsUID(t *testing.T) {
	w := newWorld(t, newWebApp(0), rightRecord(), readyPod("shop-01234567-0"))
	w.reconcile(t)
	for _, action := range w.kube.Actions() {
		if deleted, ok := action.(clienttesting.DeleteActionImpl); ok {
			if uid := deleted.DeleteOptions.Preconditions.UID; uid == nil || *uid != "uid-shop-01234567-0" {
				t.Errorf("the precondition is %v", uid)
			}
			return
		}
	}
	t.Error("no Pod was deleted")
}

func TestAPodOnItsWayOutNeitherStandsNorIsReady(t *testing.T) {
	going := readyPod("shop-01234567-0")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"a/b"}
	w := newWorld(t, newWebApp(1), rightRecord(), going)
	w.reconcile(t)
	if status := w.status(t); status.Replicas != 0 || status.ReadyReplicas != 0 || status.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("the status is %+v", status)
	}
	if got := w.writes(w.kube.Actions()...); len(got) != 0 {
		t.Errorf("its slot is waited for, and there was %v", got)
	}
}

// Where the Pods could not all be claimed, those on their way out count as little as ever.
func TestAPodOnItsWayOutDoesNotCountAfterAnError(t *testing.T) {
	going, unlabelled := readyPod("shop-01234567-0"), readyPod("shop-01234567-1")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"a/b"}
	unlabelled.Labels = nil
	w := newWorld(t, newWebApp(2), rightRecord(), going, unlabelled)
	w.kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("refused")
	})
	if err := w.Controller.reconcile(t.Context(), cache.ObjectName{Namespace: "shops", Name: "shop"}); err == nil {
		t.Fatal("the error is kept to itself")
	}
	if status := w.status(t); status.Replicas != 1 || status.Conditions[0].Status != metav1.ConditionFalse {
		t.Errorf("the status is %+v", status)
	}
}

func TestAPodThatHasEndedIsNotReady(t *testing.T) {
	ended := readyPod("a")
	ended.Status.Phase = corev1.PodFailed
	if !podReady(readyPod("a")) || podReady(ended) {
		t.Error("whatever its condition says, who has ended is not Ready")
	}
}

func TestAdoptionAddsAnOwnerAndKeepsTheOthers(t *testing.T) {
	orphan := readyPod("orphan")
	orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "u"}}
	w := newWorld(t, newWebApp(1), rightRecord(), orphan)
	w.reconcile(t)
	for _, action := range w.kube.Actions() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok {
			continue
		}
		var sent corev1.Pod
		if err := json.Unmarshal(patch.Patch, &sent); err != nil {
			t.Fatal(err)
		}
		if len(sent.OwnerReferences) != 2 || sent.OwnerReferences[0].UID != "u" || sent.UID != "uid-orphan" || sent.ResourceVersion != "7" {
			t.Errorf("the patch is %s", patch.Patch)
		}
		return
	}
	t.Error("nothing was adopted")
}

func TestNothingIsDeletedByASpecOlderThanTheLiveOne(t *testing.T) {
	w := newWorld(t, newWebApp(0), rightRecord(), readyPod("shop-01234567-0"))
	newer := newWebApp(1)
	newer.Generation = 3
	if err := w.webapps.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("webapps"), newer, "shops"); err != nil {
		t.Fatal(err)
	}
	if err := w.Controller.reconcile(t.Context(), cache.ObjectName{Namespace: "shops", Name: "shop"}); err == nil {
		t.Error("the older spec was taken for the live one")
	}
	if slices.Contains(w.writes(w.kube.Actions()...), "delete pods") {
		t.Error("a Pod was deleted")
	}
}

func TestTheFinalizerGoesWhenTheRecordHasGone(t *testing.T) {
	webapp := newWebApp(1)
	webapp.Finalizers = []string{"a/b", v1alpha1.FinalizerDNSRecord}
	webapp.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	w := newWorld(t, webapp, rightRecord())
	w.reconcile(t)
	if got := fmt.Sprint(w.writes(w.kube.Actions()...)); got != "[delete configmaps]" {
		t.Errorf("children: %s", got)
	}
	live, err := w.webapps.Phase4V1alpha1().WebApps("shops").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || fmt.Sprint(live.Finalizers) != "[a/b]" {
		t.Errorf("the finalizers are %v, %v", live.Finalizers, err)
	}
}

func TestLongNamesThatDifferAtTheEndHavePodsOfDifferentNames(t *testing.T) {
	names := map[string]bool{}
	for _, last := range "ab" {
		webapp := newWebApp(1)
		webapp.Name = fmt.Sprintf("%062d%c", 0, last)
		for slot := range 50 {
			names[podName(webapp, slot)] = true
		}
	}
	if len(names) != 100 {
		t.Errorf("%d names for 100 slots", len(names))
	}
}

// At SIGTERM a worker finishes what it has, and 99 keys stay where they are. One worker: a
// fake clientset answers one request at a time.
func TestAStopLeavesTheQueue(t *testing.T) {
	w := newWorld(t, newWebApp(1), nil)
	busy, letGo := make(chan string, 100), make(chan struct{})
	var once sync.Mutex
	var keys []string
	w.webapps.PrependReactor("update", "webapps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.UpdateAction).GetObject().(*v1alpha1.WebApp).Name
		once.Lock()
		keys = append(keys, name)
		once.Unlock()
		busy <- name
		<-letGo
		return true, nil, fmt.Errorf("refused")
	})
	for number := range 100 {
		webapp := newWebApp(1)
		webapp.Name, webapp.UID, webapp.Finalizers = fmt.Sprint("queued-", number), types.UID(fmt.Sprint(number)), nil
		if err := w.webappIndexer.Add(webapp); err != nil {
			t.Fatal(err)
		}
		w.queue.Add(cache.MetaObjectToName(webapp))
	}
	terminated, terminate := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- w.Run(t.Context(), terminated, 1) }()
	<-busy
	terminate()
	close(letGo)
	select {
	case <-ended:
	case <-time.After(soon):
		t.Fatal("it goes on")
	}
	// The worker may be back before the end of the context has been seen to everywhere.
	if len(keys) > 2 {
		t.Errorf("%d keys were taken", len(keys))
	}
}

func TestAStopWakesWorkersThatWait(t *testing.T) {
	w := newWorld(t, newWebApp(1), nil)
	terminated, terminate := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- w.Run(t.Context(), terminated, 2) }()
	terminate()
	select {
	case <-ended:
	case <-time.After(soon):
		t.Fatal("it goes on")
	}
}
