// Package caller describes the maker of a request to the broker: the code's connection, its session, and the memory that it may hold.
package caller

import "context"

// Caller is the code that a request comes from. All of it is known by the server and nothing said by the code.
type Caller struct {
	Session string // the session's id
	Run     string // the run that was going on when the connection was made; empty if there was none
	// Memory bounds the session's requests together. Nil: no bound.
	Memory *Budget
}

type key struct{}

// With returns a context of a request that c makes.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns who makes the request; the zero Caller if nothing is known.
func Of(ctx context.Context) Caller {
	c, _ := ctx.Value(key{}).(Caller)
	return c
}
