package main

import "errors"

var errNotWritten = errors.New("not written yet")

// add says that a key needs processing.
func (r *replay) add(key string) error {
	return errNotWritten
}

// get waits for a key and takes it; over is true when none will ever come.
func (r *replay) get() (key string, over bool, err error) {
	return "", false, errNotWritten
}

// done finishes with a key.
func (r *replay) done(key string) error {
	return errNotWritten
}

// shutDown takes no more keys. With drain it returns only when no worker has one.
func (r *replay) shutDown(drain bool) error {
	return errNotWritten
}
