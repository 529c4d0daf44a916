// Package filelock locks files between processes. A lock ends with its process, however that ends, and belongs to one opening of the file:
// another opening in the same process does not share it. The functions are safe for several goroutines.
package filelock

import "errors"

// ErrHeld reports that another opening of the file holds the lock.
var ErrHeld = errors.New("the file is locked")
