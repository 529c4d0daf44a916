package fetch

import (
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const maxName = 200 // bytes

// suggest returns the file's name by the server's word, or else by its address.
func suggest(response *http.Response) string {
	if _, params, err := mime.ParseMediaType(response.Header.Get("Content-Disposition")); err == nil {
		if name := segment(params["filename"]); name != "" {
			return name
		}
	}
	return segment(response.Request.URL.Path)
}

// segment makes one harmless path segment of a name that somebody else chose, or nothing.
func segment(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Trim(clip(strings.ToValidUTF8(name, ""), 1<<10), " ./…")
	if len(name) > maxName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = text.Clip(name, maxName-len(ext)) + ext
	}
	return name
}
