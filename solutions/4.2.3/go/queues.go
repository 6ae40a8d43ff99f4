package main

import (
	// phase4:solution
	"k8s.io/client-go/tools/cache"
	// phase4:stub
	// "errors"
	//
	// "k8s.io/client-go/tools/cache"
	// phase4:end
)

// phase4:solution
// phase4:stub
// var errNotWritten = errors.New("not written yet")
//
// phase4:end
// newDeltaFIFO makes a DeltaFIFO whose lists come out as Replaced, and that
// knows what the consumer has (known may be nil: then it does not).
func newDeltaFIFO(known cache.KeyListerGetter) (cache.Queue, error) {
	// phase4:solution
	return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		KnownObjects:          known,
		EmitDeltaTypeReplaced: true,
	}), nil
	// phase4:stub
	// return nil, errNotWritten
	// phase4:end
}

// newRealFIFO makes a RealFIFO: atomic as an informer has it, or one that takes
// lists apart against what the consumer has.
func newRealFIFO(atomic bool, known cache.KeyListerGetter) (cache.Queue, error) {
	// phase4:solution
	if atomic {
		return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
			AtomicEvents:          true,
			UnlockWhileProcessing: true,
			EmitDeltaTypeBookmark: true,
		}), nil
	}
	return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KnownObjects: known}), nil
	// phase4:stub
	// return nil, errNotWritten
	// phase4:end
}

// pop takes one entry off the queue: note is told of each of its deltas, oldest
// first, and afterwards the consumer's store is brought up to date by apply.
// Both must happen while nobody can add to a DeltaFIFO.
func pop(queue cache.Queue, note func(cache.Delta), apply func(cache.Delta)) (initial bool, err error) {
	// phase4:solution
	_, err = queue.Pop(func(obj any, isInInitialList bool) error {
		initial = isInInitialList
		for _, delta := range obj.(cache.Deltas) {
			note(delta)
			apply(delta)
		}
		return nil
	})
	return initial, err
	// phase4:stub
	// return false, errNotWritten
	// phase4:end
}
