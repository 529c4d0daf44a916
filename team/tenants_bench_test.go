package team

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// What a principal costs who comes for the first time.
func BenchmarkTenant(b *testing.B) {
	s, err := load(b, []string{"--http", "127.0.0.1:0", "--state-dir", filepath.Join(b.TempDir(), "state")}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r, err := s.Begin(ctx, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer r.End(ctx)
	all, n := newTenants(r, new(policy)), 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		if _, err := all.Get(principal.Principal{Name: fmt.Sprint("user", n)}); err != nil {
			b.Fatal(err)
		}
	}
}
