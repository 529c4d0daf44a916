// Package caller describes a request's maker to the broker: the code's connection, its session, and the memory that it may hold.
package caller

import "context"

// Caller is the code that a request comes from, as the server knows it, and not as the code says.
type Caller struct {
	Session string // the session's id
	Run     string // the run that was going on when the connection was made; empty if there was none
	// Memory bounds the session's requests together. Nil: no bound.
	Memory *Budget
}

type key struct{}

// With returns a request's context that c makes.
func With(ctx context.Context, c Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns who makes the request; the zero Caller if that is unknown.
func Of(ctx context.Context) Caller {
	c, _ := ctx.Value(key{}).(Caller)
	return c
}
