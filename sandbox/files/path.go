package files

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// The bounds of a requested path: Linux's for a name, and a sane one for the whole.
const (
	maxRequestPath = 1024
	maxNameBytes   = 255
)

// CleanPath takes a requested path, relative to WorkDir or beginning with it, and returns it relative to WorkDir in its shortest
// form. The container resolves it later: no path of a request means anything on the host. The error is the fault invalid_path.
func CleanPath(p string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fault.New(fault.InvalidPath,
			"Use a path below "+engine.WorkDir+", such as output/report.csv; list_artifacts lists the files.",
			"The path %q %s.", text.Safe(p, 120), why)
	}
	switch {
	case p == "":
		return refuse("is empty")
	case len(p) > maxRequestPath:
		return refuse("is too long")
	case !utf8.ValidString(p):
		return refuse("is not UTF-8")
	case strings.ContainsFunc(p, unicode.IsControl):
		return refuse("has control characters")
	}
	rest, below := strings.CutPrefix(p, engine.WorkDir+"/")
	if !below && path.IsAbs(p) {
		return refuse("is not below " + engine.WorkDir)
	}
	for name := range strings.SplitSeq(rest, "/") {
		if name == ".." {
			return refuse("has a .. in it")
		}
		if len(name) > maxNameBytes {
			return refuse("has a name that is too long")
		}
	}
	clean := path.Clean(rest)
	if clean == "." || path.IsAbs(clean) {
		return refuse("names no file")
	}
	return clean, nil
}
