package main

// phase4:solution
// phase4:stub
// import "errors"
//
// var errNotWritten = errors.New("not written yet")
//
// phase4:end
// add says that a key needs processing.
func (r *replay) add(key string) error {
	// phase4:solution
	r.queue.Add(key)
	return nil
	// phase4:stub
	// return errNotWritten
	// phase4:end
}

// get waits for a key and takes it; over is true when none will ever come.
func (r *replay) get() (key string, over bool, err error) {
	// phase4:solution
	key, over = r.queue.Get()
	return key, over, nil
	// phase4:stub
	// return "", false, errNotWritten
	// phase4:end
}

// done finishes with a key.
func (r *replay) done(key string) error {
	// phase4:solution
	r.queue.Done(key)
	return nil
	// phase4:stub
	// return errNotWritten
	// phase4:end
}

// shutDown takes no more keys. With drain it returns only when no worker has one.
func (r *replay) shutDown(drain bool) error {
	// phase4:solution
	if drain {
		r.queue.ShutDownWithDrain()
	} else {
		r.queue.ShutDown()
	}
	return nil
	// phase4:stub
	// return errNotWritten
	// phase4:end
}
