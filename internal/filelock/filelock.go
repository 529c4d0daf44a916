// Package filelock locks files between processes. A lock goes with the process that holds it, however that ends, and belongs
// to one opening of the file: another of the same process does not have it. The functions may be called from several goroutines.
package filelock

import "errors"

// ErrHeld reports that another opening of the file has the lock.
var ErrHeld = errors.New("the file is locked")
