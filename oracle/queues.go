package main

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// ordered is a consumer's store whose keys come in the order in which they
// were first added: client-go's own comes in a random one, which no trace can
// predict.
type ordered struct {
	keys    []string
	objects map[string]any
}

func newOrdered() *ordered { return &ordered{objects: map[string]any{}} }

func (o *ordered) ListKeys() []string { return append([]string{}, o.keys...) }

func (o *ordered) GetByKey(key string) (any, bool, error) {
	obj, ok := o.objects[key]
	return obj, ok, nil
}

func (o *ordered) apply(deltas cache.Deltas) {
	for _, delta := range deltas {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(delta.Object)
		must(err)
		_, known := o.objects[key]
		if delta.Type == cache.Deleted {
			delete(o.objects, key)
			for i := range o.keys {
				if o.keys[i] == key {
					o.keys = append(o.keys[:i:i], o.keys[i+1:]...)
					break
				}
			}
			continue
		}
		if !known {
			o.keys = append(o.keys, key)
		}
		o.objects[key] = delta.Object
	}
}

func wrap(object map[string]any) any {
	if object == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}

func wrapAll(objects []map[string]any) []any {
	all := []any{}
	for _, object := range objects {
		all = append(all, wrap(object))
	}
	return all
}

// plain turns what client-go hands out into JSON.
func plain(value any) any {
	switch value := value.(type) {
	case nil:
		return nil
	case *unstructured.Unstructured:
		return value.Object
	case cache.DeletedFinalStateUnknown:
		return map[string]any{"tombstone": value.Key, "obj": plain(value.Obj)}
	case cache.ReplacedAllInfo:
		objects := []any{}
		for _, object := range value.Objects {
			objects = append(objects, plain(object))
		}
		return map[string]any{"objects": objects, "resource_version": value.ResourceVersion}
	case cache.BookmarkInfo:
		return map[string]any{"resource_version": value.ResourceVersion}
	case cache.SyncAllInfo:
		return map[string]any{}
	}
	panic(reflect.TypeOf(value).String())
}

// queued reads the length of a queue's own slice: neither queue tells it.
func queued(queue any, field string) int {
	return reflect.ValueOf(queue).Elem().FieldByName(field).Len()
}

func runDeltaFIFO(trace Trace) any {
	known := newOrdered()
	options := cache.DeltaFIFOOptions{EmitDeltaTypeReplaced: true}
	if trace.KnownObjects {
		options.KnownObjects = known
	}
	queue := cache.NewDeltaFIFOWithOptions(options)
	return drive(trace, queue, known, "queue", func(string) error { return nil }, func() any { return nil })
}

func runRealFIFO(trace Trace) any {
	known := newOrdered()
	options := cache.RealFIFOOptions{}
	if trace.Atomic {
		options.AtomicEvents, options.UnlockWhileProcessing, options.EmitDeltaTypeBookmark = true, true, true
	} else {
		options.KnownObjects = known
	}
	queue := cache.NewRealFIFOWithOptions(options)
	inside := func() any { return nil }
	if trace.Atomic {
		// Only here is the lock free while a delta is processed.
		inside = func() any { return queue.HasSynced() }
	}
	return drive(trace, queue, known, "items", queue.Bookmark, inside)
}

func drive(trace Trace, queue cache.Queue, known *ordered, field string, bookmark func(string) error, inside func() any) any {
	outcomes := []any{}
	closed := false
	for _, op := range trace.Ops {
		var outcome any
		switch op.name() {
		case "add":
			must(queue.Add(wrap(op.object(1))))
		case "update":
			must(queue.Update(wrap(op.object(1))))
		case "delete":
			must(queue.Delete(wrap(op.object(1))))
		case "delete_tombstone":
			must(queue.Delete(cache.DeletedFinalStateUnknown{Key: op.text(1), Obj: wrap(op.object(2))}))
		case "replace":
			must(queue.Replace(wrapAll(op.objects(1)), op.text(2)))
		case "resync":
			must(queue.Resync())
		case "bookmark":
			must(bookmark(op.text(1)))
		case "has_synced":
			outcome = queue.HasSynced()
		case "close":
			queue.Close()
			closed = true
		case "pop":
			if queued(queue, field) == 0 && !closed {
				outcome = "blocked"
				break
			}
			_, err := queue.Pop(func(obj any, initial bool) error {
				deltas := obj.(cache.Deltas)
				all := []any{}
				for _, delta := range deltas {
					all = append(all, []any{delta.Type, plain(delta.Object)})
				}
				if !trace.Atomic {
					known.apply(deltas)
				}
				outcome = map[string]any{"deltas": all, "initial": initial, "synced_inside": inside()}
				return nil
			})
			if err != nil {
				outcome = "closed"
			}
		default:
			panic(op.name())
		}
		outcomes = append(outcomes, outcome)
	}
	queue.Close()
	return outcomes
}
