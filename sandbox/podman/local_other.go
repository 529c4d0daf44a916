//go:build !linux

// On other systems containers run elsewhere, so this machine knows nothing of them.

package podman

import "github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"

func localIDs(string) (space idSpace, ok bool) { return idSpace{}, false }

func hardLimits() (openFiles, processes uint64) { return 0, 0 }

func me() int { return -1 }

func ownerOf(engine.Mount) (uid, gid int, err error) { return 0, 0, engine.ErrNotOnHost }

func mapped(engine.Mount, int, int, int64) (place string, end func(), err error) {
	return "", nil, engine.ErrNotOnHost
}
