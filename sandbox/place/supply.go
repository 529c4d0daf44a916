package place

import (
	"context"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Supply is what all sessions of a server draw on: known images, turns to start containers, spares.
type Supply struct {
	Images imageCache
	Starts *fair.Places // of containers that come up, shared by tenants
	Spares *spares
}

// MostStarts bounds a server's containers that come up at once: many starts slow each other down. The others wait outside of their
// start-timeout. A free slot goes to the tenant with the fewest.
const MostStarts = 8

// NewSupply makes the supply of a server. Background work counts in working, and ends with ctx.
func NewSupply(ctx context.Context, config *Config, working *sync.WaitGroup) *Supply {
	s := &Supply{Starts: fair.NewOpen(MostStarts)}
	s.Spares = &spares{config: config, supply: s, ctx: ctx, working: working}
	return s
}

// imageCache remembers images, so that a new session does not ask for them again.
type imageCache struct {
	mu    sync.Mutex
	known map[string]engine.ImageInfo
}

func (c *imageCache) get(ctx context.Context, on engine.Engine, ref string) (engine.ImageInfo, error) {
	c.mu.Lock()
	info, ok := c.known[ref]
	c.mu.Unlock()
	if ok {
		return info, nil
	}
	info, err := on.Image(ctx, ref)
	if err != nil {
		return engine.ImageInfo{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[string]engine.ImageInfo)
	}
	c.known[ref] = info
	return info, nil
}

// forget drops an image that may be gone or replaced.
func (c *imageCache) forget(ref string) {
	c.mu.Lock()
	delete(c.known, ref)
	c.mu.Unlock()
}
