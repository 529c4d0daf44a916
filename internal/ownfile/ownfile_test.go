package ownfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

type counts struct{ N map[string]int }

func add(key string) func(*counts) error {
	return func(c *counts) error {
		if c.N == nil {
			c.N = make(map[string]int)
		}
		c.N[key]++
		return nil
	}
}

func TestChangesOfSeveralAreAllKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "counts.json")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			f := Open[counts](path)
			for range 10 {
				should.OK(t, f.Change(add("x")))
			}
		})
	}
	all.Wait()
	got, err := Open[counts](path).Read()
	should.Hold(t, err == nil && got.N["x"] == 40, "%+v %v", got, err)
}

func TestAChangeOfAnotherIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "counts.json")
	mine, other := Open[counts](path), Open[counts](path)
	got, err := mine.Read()
	should.Hold(t, err == nil && got.N == nil, "without a file: %+v %v", got, err)
	for i := range 20 {
		must.OK(t, other.Change(add("x")))
		got, err := mine.Read()
		must.Hold(t, err == nil && got.N["x"] == i+1, "%d: %+v %v", i, got, err)
	}
	failed := errors.New("no")
	for _, err := range []error{failed, ErrUnchanged} {
		got := mine.Change(func(c *counts) error { c.N["x"] = 0; return err })
		should.Hold(t, errors.Is(err, failed) == errors.Is(got, failed) && !errors.Is(got, ErrUnchanged), "%v: %v", err, got)
	}
	got, err = mine.Read()
	should.Hold(t, err == nil && got.N["x"] == 20, "what has failed is written: %+v %v", got, err)
	must.OK(t, os.Remove(path))
	got, err = mine.Read()
	should.Hold(t, err == nil && got.N == nil, "after it was removed: %+v %v", got, err)
}

func TestFilesThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are another matter there")
	}
	for want, prepare := range map[string]func(path string) error{
		"mode 0644": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("{}"), 0o600), os.Chmod(path, 0o644))
		},
		"not a regular file": func(path string) error { return os.Symlink("/dev/null", path) },
		"cannot be read":     func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		path := filepath.Join(t.TempDir(), "counts.json")
		must.OK(t, prepare(path))
		_, err := Open[counts](path).Read()
		should.Hold(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), path),
			"reading: %v, not %s", err, want)
		should.Fail(t, Open[counts](path).Change(add("x")), want, "changing")
	}
}
