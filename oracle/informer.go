package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"
	"syscall"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Answers are what a scripted server says to each kind of request, in order.
// When a kind has none left, its request hangs; so does a watch that ends in
// "hang". Then the trace is over.
type Answers struct {
	List      []Answer `json:"list"`
	Watch     []Answer `json:"watch"`
	WatchList []Answer `json:"watch_list"`
}

// Answer is to a LIST (Items, ResourceVersion, Continue) or to a watch (Events,
// Then, Lasts); or Error, the Status of one that failed; or Refused or Reset,
// where the connection failed.
type Answer struct {
	Items           []map[string]any `json:"items"`
	ResourceVersion string           `json:"rv"`
	Continue        string           `json:"continue"`

	Events []Event `json:"events"`
	// Then is "close" or "hang".
	Then string `json:"then"`
	// Lasts is the seconds after the last event before the stream is closed.
	Lasts float64 `json:"lasts"`

	Error   *metav1.Status `json:"error"`
	Refused bool           `json:"refused"`
	Reset   bool           `json:"reset"`
}

// Event is one of a watch; Object of an ERROR is a Status.
type Event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// server answers from a script and writes down what it was asked.
type server struct {
	lock      sync.Mutex
	answers   Answers
	watchList bool
	requests  []any
	over      chan struct{}
	once      sync.Once
}

// IsWatchListSemanticsUnSupported is what client-go asks before it tries a watch-list.
func (s *server) IsWatchListSemanticsUnSupported() bool { return !s.watchList }

func (s *server) next(ctx context.Context, kind string, options metav1.ListOptions) (*Answer, error) {
	s.lock.Lock()
	s.requests = append(s.requests, map[string]any{
		"kind": kind, "rv": options.ResourceVersion, "match": string(options.ResourceVersionMatch),
		"limit": options.Limit, "continue": options.Continue, "bookmarks": options.AllowWatchBookmarks,
	})
	queue := map[string]*[]Answer{
		"list": &s.answers.List, "watch": &s.answers.Watch, "watch_list": &s.answers.WatchList,
	}[kind]
	var answer *Answer
	if len(*queue) > 0 {
		answer, *queue = &(*queue)[0], (*queue)[1:]
	}
	s.lock.Unlock()
	switch {
	case answer == nil:
		return nil, s.hang(ctx)
	case answer.Refused:
		return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	case answer.Reset:
		return nil, errors.New("the connection broke")
	case answer.Error != nil:
		return nil, apierrors.FromObject(answer.Error)
	}
	return answer, nil
}

func (s *server) hang(ctx context.Context) error {
	s.once.Do(func() { close(s.over) })
	<-ctx.Done()
	return ctx.Err()
}

func (s *server) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	answer, err := s.next(ctx, "list", options)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "ThingList"}}
	list.SetResourceVersion(answer.ResourceVersion)
	list.SetContinue(answer.Continue)
	for _, item := range answer.Items {
		list.Items = append(list.Items, unstructured.Unstructured{Object: item})
	}
	return list, nil
}

func (s *server) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	kind := "watch"
	if options.SendInitialEvents != nil {
		kind = "watch_list"
	}
	answer, err := s.next(ctx, kind, options)
	if err != nil {
		return nil, err
	}
	stream := &stream{result: make(chan watch.Event), done: make(chan struct{})}
	go stream.play(ctx, s, answer)
	return stream, nil
}

func (s *server) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *server) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

type stream struct {
	result chan watch.Event
	done   chan struct{}
	once   sync.Once
}

func (s *stream) ResultChan() <-chan watch.Event { return s.result }
func (s *stream) Stop()                          { s.once.Do(func() { close(s.done) }) }

func (s *stream) play(ctx context.Context, server *server, answer *Answer) {
	defer close(s.result)
	for _, event := range answer.Events {
		var object runtime.Object = &unstructured.Unstructured{Object: event.Object}
		if event.Type == "ERROR" {
			status := &metav1.Status{}
			must(runtime.DefaultUnstructuredConverter.FromUnstructured(event.Object, status))
			object = status
		}
		select {
		case s.result <- watch.Event{Type: watch.EventType(event.Type), Object: object}:
		case <-s.done:
			return
		}
	}
	if answer.Then == "hang" {
		// The last event is in the reflector's hands. When time passes, it was put away, and
		// the stream perhaps stopped because of it.
		time.Sleep(time.Nanosecond)
		select {
		case <-s.done:
			return
		default:
		}
		server.once.Do(func() { close(server.over) })
		select {
		case <-ctx.Done():
		case <-s.done:
		}
		return
	}
	select {
	case <-time.After(seconds(answer.Lasts)):
	case <-s.done:
	}
}

// notes is a handler that writes down what it was told.
type notes struct {
	lock  sync.Mutex
	notes []any
}

func (n *notes) note(note ...any) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.notes = append(n.notes, note)
}

func (n *notes) OnAdd(obj any, initial bool) { n.note("add", brief(obj), initial) }
func (n *notes) OnUpdate(old, new any)       { n.note("update", brief(old), brief(new)) }
func (n *notes) OnDelete(obj any)            { n.note("delete", brief(obj)) }

// brief is key@version/uid, with the key of a tombstone before it.
func brief(obj any) string {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return "tombstone of " + tombstone.Key + ": " + brief(tombstone.Obj)
	}
	if obj == nil {
		return "unknown"
	}
	key, err := cache.MetaNamespaceKeyFunc(obj)
	must(err)
	object, err := meta.Accessor(obj)
	must(err)
	return fmt.Sprintf("%s@%s/%s", key, object.GetResourceVersion(), object.GetUID())
}

func briefs(objects []any) []string {
	all := []string{}
	for _, object := range objects {
		all = append(all, brief(object))
	}
	sort.Strings(all)
	return all
}

func runInformer(trace Trace) any {
	server := &server{answers: trace.Answers, watchList: trace.WatchList, over: make(chan struct{})}
	informer := cache.NewSharedIndexInformer(server, &unstructured.Unstructured{}, 0, cache.Indexers{})
	handler, late := &notes{}, &notes{}
	registration, err := informer.AddEventHandler(handler)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		informer.RunWithContext(ctx)
		close(ended)
	}()
	<-server.over
	synctest.Wait()
	outcome := map[string]any{
		"requests": server.requests,
		"store":    briefs(informer.GetStore().List()),
		"version":  informer.LastSyncResourceVersion(),
		"synced":   informer.HasSynced(),
		// A handler that saw nothing yet, of an informer that synced, is a fault.
		"handler_synced": registration.HasSynced(),
	}
	lateRegistration, err := informer.AddEventHandler(late)
	must(err)
	synctest.Wait()
	outcome["late_synced"] = lateRegistration.HasSynced()
	cancel()
	<-ended
	// Streams that slept for a moment wake up, and end.
	time.Sleep(time.Second)
	synctest.Wait()
	outcome["notes"] = handler.notes
	outcome["late"] = late.notes
	// Marshalled here, while nothing changes any more.
	data, err := json.Marshal(outcome)
	must(err)
	return json.RawMessage(data)
}
