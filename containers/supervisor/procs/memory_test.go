//go:build linux

package procs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A container's account leaves out what is cached of files, in both kinds of control groups.
func TestAccount(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"v2": {
			"max": "1048576\n", "swap": "4096\n",
			"stat": "anon 100000\nfile 900000\nkernel 5000\nshmem 20000\nanon_thp 7\nshmem_thp 8\ninactive_anon 9\n",
		},
		"v1": {
			"max":  "1048576\n",
			"stat": "cache 1\nrss 2\nshmem 3\nswap 4\nhierarchical_memory_limit 1048576\ntotal_cache 900000\ntotal_rss 100000\ntotal_shmem 20000\ntotal_swap 4096\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range files {
				must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			kind := map[string]Account{"v2": accounts[0], "v1": accounts[1]}[name]
			kind.limit, kind.stat = filepath.Join(dir, "max"), filepath.Join(dir, "stat")
			if kind.swapped[0] == '/' {
				kind.swapped = filepath.Join(dir, "swap")
			}
			should.Hold(t, kind.hasLimit(1<<20) && !kind.hasLimit(1<<19), "it is not told by its limit")
			got, want := kind.Read(), (Memory{Anonymous: 104096, Shared: 20000})
			should.Hold(t, got == want, "got %+v, want %+v", got, want)
		})
	}
}
