package main

import (
	"encoding/json"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

func (o Op) objects(i int) []map[string]any {
	var value []map[string]any
	must(json.Unmarshal(o[i], &value))
	return value
}

// byLabel finds an object under each comma-separated value of one label: none, one or several.
func byLabel(label string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		value, ok := object.GetLabels()[label]
		if !ok {
			return nil, nil
		}
		return strings.Split(value, ","), nil
	}
}

func keysOf(objects []any) []string {
	keys := []string{}
	for _, obj := range objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		must(err)
		object, err := meta.Accessor(obj)
		must(err)
		keys = append(keys, key+"@"+object.GetResourceVersion())
	}
	sort.Strings(keys)
	return keys
}

func sorted(values []string) []string {
	values = append([]string{}, values...)
	sort.Strings(values)
	return values
}

func orError(value []string, err error) any {
	if err != nil {
		return "error"
	}
	return sorted(value)
}

func objectsOrError(value []any, err error) any {
	if err != nil {
		return "error"
	}
	return keysOf(value)
}

func runStore(trace Trace) any {
	store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"app":                byLabel("app"),
	})
	outcomes := []any{}
	for _, op := range trace.Ops {
		var outcome any
		switch op.name() {
		case "add":
			must(store.Add(wrap(op.object(1))))
		case "update":
			must(store.Update(wrap(op.object(1))))
		case "delete":
			must(store.Delete(wrap(op.object(1))))
		case "delete_tombstone":
			must(store.Delete(cache.DeletedFinalStateUnknown{Key: op.text(1), Obj: wrap(op.object(2))}))
		case "replace":
			must(store.Replace(wrapAll(op.objects(1)), op.text(2)))
		case "bookmark":
			store.Bookmark(op.text(1))
		case "get":
			obj, exists, err := store.GetByKey(op.text(1))
			must(err)
			if exists {
				outcome = plain(obj)
			}
		case "list":
			outcome = keysOf(store.List())
		case "keys":
			outcome = sorted(store.ListKeys())
		case "by_index":
			outcome = objectsOrError(store.ByIndex(op.text(1), op.text(2)))
		case "keys_by_index":
			outcome = orError(store.IndexKeys(op.text(1), op.text(2)))
		case "like":
			outcome = objectsOrError(store.Index(op.text(1), wrap(op.object(2))))
		case "index_values":
			outcome = sorted(store.ListIndexFuncValues(op.text(1)))
		case "add_indexer":
			if store.AddIndexers(cache.Indexers{op.text(1): byLabel(op.text(1))}) != nil {
				outcome = "error"
			}
		case "version":
			outcome = store.LastStoreSyncResourceVersion()
		default:
			panic(op.name())
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}
