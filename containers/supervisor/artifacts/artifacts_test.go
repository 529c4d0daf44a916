//go:build linux

package artifacts

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func BenchmarkScan20000(b *testing.B) {
	dir := b.TempDir()
	for i := range 200 {
		sub := filepath.Join(dir, "d"+strconv.Itoa(i))
		_ = os.Mkdir(sub, 0o755)
		for j := range 100 {
			_ = os.WriteFile(filepath.Join(sub, "f"+strconv.Itoa(j)), nil, 0o644)
		}
	}
	f, _ := os.Open(dir)
	s := NewScanner(f)
	since := s.Begin()
	for b.Loop() {
		s.Scan(since, 100)
	}
}
