//go:build linux

package main

import (
	"encoding/json"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// settings are the bounded values of `init`.
type settings protocol.Init

func readSettings(frame []byte) (*settings, error) {
	s := &settings{}
	if err := json.Unmarshal(frame, s); err != nil {
		return nil, err
	}
	if s.WorkDir == "" {
		s.WorkDir = "/mnt/data"
	}
	if s.Env == nil { // a kernel is given no null
		s.Env = map[string]string{}
	}
	// Six bytes of JSON may stand for one of output, and a frame holds five such texts.
	s.OutputBytes = bounded(s.OutputBytes, 256, 200<<10)
	s.SpoolBytes = bounded(s.SpoolBytes, 1, 1<<40)
	s.ImageBytes = bounded(s.ImageBytes, 1, 6<<20-64<<10)
	s.MaxDisplays = bounded(s.MaxDisplays, 1, 1000)
	s.MaxArtifacts = bounded(s.MaxArtifacts, 1, 1000)
	s.Twins = bounded(s.Twins, 0, 16)
	return s, nil
}

// bounded returns the number that is nearest to n within the bounds that a supervisor can keep.
func bounded[T int | int64](n, low, high T) T { return min(max(n, low), high) }

func (s *settings) idle() time.Duration { return time.Duration(s.IdleSeconds) * time.Second }

func (s *settings) hasVolumeLimit() bool { return s.VolumeBytes > 0 || s.VolumeFiles > 0 }
