package main

import (
	"errors"

	"k8s.io/client-go/tools/cache"
)

var errNotWritten = errors.New("not written yet")

// newDeltaFIFO makes a DeltaFIFO whose lists come out as Replaced, and that
// knows what the consumer has (known may be nil: then it does not).
func newDeltaFIFO(known cache.KeyListerGetter) (cache.Queue, error) {
	return nil, errNotWritten
}

// newRealFIFO makes a RealFIFO: atomic as an informer has it, or one that takes
// lists apart against what the consumer has.
func newRealFIFO(atomic bool, known cache.KeyListerGetter) (cache.Queue, error) {
	return nil, errNotWritten
}

// pop takes one entry off the queue: note is told of each of its deltas, oldest
// first, and afterwards the consumer's store is brought up to date by apply.
// Both must happen while nobody can add to a DeltaFIFO.
func pop(queue cache.Queue, note func(cache.Delta), apply func(cache.Delta)) (initial bool, err error) {
	return false, errNotWritten
}
