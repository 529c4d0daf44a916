// Where an upload goes, by the name that it asks for.

package content

import (
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// InputDir is where uploads go.
const InputDir = "input"

// InputPath makes a path of the name that an upload asks for: below input/, unless the name is a path below the work directory. A name
// that ends in a slash is a folder's, and takes the source's own name.
func InputPath(filename, source string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fault.New(fault.InvalidFilename,
			"Use a plain name such as data.csv, or folder/data.csv; it is put below "+engine.WorkDir+"/"+InputDir+", or where a path such as "+engine.WorkDir+"/output/data.csv says.",
			"The filename %q %s.", text.Shorten(filename, 120), why)
	}
	// One form for every name, so that the code finds it however it types the accents.
	name := norm.NFC.String(filename)
	if strings.HasSuffix(name, "/") {
		if source == "" {
			return refuse("is a folder's, and what is uploaded has no name of its own")
		}
		name += norm.NFC.String(source)
	}
	switch {
	case strings.Trim(name, " ") == "":
		return refuse("is empty")
	case strings.ContainsRune(name, unicode.ReplacementChar):
		return refuse("has characters that are not text")
	case strings.ContainsFunc(name, misleading):
		return refuse("has control characters")
	case strings.Contains(name, `\`):
		return refuse(`has a \ in it`)
	}
	name, below := strings.CutPrefix(name, engine.WorkDir+"/")
	switch {
	case path.IsAbs(name):
		return refuse("is an absolute path outside " + engine.WorkDir)
	case !below && !strings.HasPrefix(name, InputDir+"/"):
		name = InputDir + "/" + name
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || strings.TrimSpace(part) != part {
			return refuse("has .. or blanks around a name in it")
		}
	}
	clean, err := sandbox.CleanPath(path.Clean(name))
	if err != nil || clean == InputDir {
		return refuse("is no name of a file, or is too long")
	}
	return clean, nil
}

// misleading reports characters that hide the real form of a name.
func misleading(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.In(r, unicode.Zl, unicode.Zp)
}
