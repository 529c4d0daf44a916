// What is used of a cluster's Leases.

package replicas

import (
	"context"
	"errors"
	"time"
)

// Lease is what is used of one.
type Lease struct {
	Name, UID, Version  string
	Labels, Annotations map[string]string
	Holder              string
}

// Change is of a Lease. Nothing of it is done where the Lease is not as it says.
type Change struct {
	If          *string           // the holder that it must have; nil: any
	Holder      *string           // that it gets; nil: the same
	Annotations map[string]string // that are set; empty: taken away
}

// Errors of Leases.
var (
	ErrNotFound = errors.New("there is no such Lease")
	ErrExists   = errors.New("there is such a Lease already")
	ErrChanged  = errors.New("the Lease is not as it was") // a Change's If, or a version
)

// Leases are a group's in a namespace, at the API server. Its methods may be called from any goroutine.
type Leases interface {
	Get(ctx context.Context, name string) (*Lease, error)
	Create(ctx context.Context, l *Lease, lasts time.Duration) (*Lease, error)
	// Change changes a Lease that is there, and has it say that it was renewed.
	Change(ctx context.Context, name string, c Change) (*Lease, error)
	// Delete removes a Lease in this version.
	Delete(ctx context.Context, name, version string) error
	// List returns all, and the version that Watch goes on from.
	List(ctx context.Context) (all []Lease, version string, err error)
	// Watch reports changes until ctx ends, or the API server ends it, and returns why it ended.
	Watch(ctx context.Context, version string, each func(l Lease, deleted bool)) error
}
