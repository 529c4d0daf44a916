package cmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	broken := errors.New("in the middle")
	if err := writeWhole(path, false, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	// Somebody is quicker, after it was looked whether the name is free.
	err := writeWhole(path, false, func(w io.Writer) error { return os.WriteFile(path, []byte("theirs"), 0o600) })
	if fault.From(err).Code != fault.FileExists {
		t.Errorf("got %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "theirs" {
		t.Errorf("the file has %q", text)
	}
	if err := writeWhole(path, true, writes("ours")); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "ours" {
		t.Errorf("the file has %q", text)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestALinkIsReplacedAndNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("safe"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(link, false, writes("x")); fault.From(err).Code != fault.FileExists {
		t.Errorf("got %v", err)
	}
	if err := writeWhole(link, true, writes("x")); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(target); string(text) != "safe" {
		t.Errorf("the target has %q", text)
	}
}

func TestWhereNoFileCanBe(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{"a folder": dir, "no folder": filepath.Join(dir, "no", "such")} {
		for _, force := range []bool{false, true} {
			if err := writeWhole(path, force, writes("x")); fault.From(err).Code != fault.InvalidArgument {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCodeIsShownInOneHarmlessLine(t *testing.T) {
	for text, want := range map[string]string{
		"x = 1\n\tprint(x)":   "x = 1 print(x)",
		"\x1b[2Jgone\u009b1m": "·[2Jgone·1m",
		"ü":                   "ü",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
