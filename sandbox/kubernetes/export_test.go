//go:build !nokubernetes

package kubernetes

import "context"

// WithoutImageVolumes has an engine take its cluster for one that is too old for them.
func (e *Engine) WithoutImageVolumes(ctx context.Context) error {
	c, err := e.connect(ctx)
	if err == nil {
		c.imageVolumes = false
	}
	return err
}
