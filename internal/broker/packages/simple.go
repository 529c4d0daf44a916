package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	nethtml "golang.org/x/net/html"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

const (
	simpleJSON = "application/vnd.pypi.simple.v1+json"
	simpleHTML = "application/vnd.pypi.simple.v1+html"
)

// pythonFile is a file as an index page lists it.
type pythonFile struct {
	distribution
	name           string
	address        *url.URL
	hashes         map[string]string // hexadecimal digits by algorithm
	requiresPython string
	yanked         bool
	whyYanked      string
	metadata       bool              // the file's METADATA is beside it (PEP 658)
	metadataHashes map[string]string // of it
	size           int64             // -1: not known
	uploaded       time.Time         // zero: not known
}

// simplePage is a page as PEP 691 has it in JSON. Only what is passed on is read, and written.
type simplePage struct {
	Meta struct {
		Version string `json:"api-version"`
	} `json:"meta"`
	Name     string       `json:"name"`
	Versions []string     `json:"versions,omitempty"`
	Files    []simpleFile `json:"files"`
}

type simpleFile struct {
	Filename       string            `json:"filename"`
	URL            string            `json:"url"`
	Hashes         map[string]string `json:"hashes"`
	RequiresPython string            `json:"requires-python,omitempty"`
	Yanked         any               `json:"yanked,omitempty"`        // true, or why
	CoreMetadata   any               `json:"core-metadata,omitempty"` // true, or hashes
	OldMetadata    any               `json:"dist-info-metadata,omitempty"`
	Size           *int64            `json:"size,omitempty"`
	UploadTime     string            `json:"upload-time,omitempty"`
}

// parseSimple reads an index page of a package, in JSON or HTML. Files that are not of the package are left out.
func parseSimple(name string, response *http.Response, body []byte) (any, error) {
	base := response.Request.URL
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	var listed []simpleFile
	switch kind {
	case simpleJSON:
		var p simplePage
		if err := json.Unmarshal(body, &p); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(p.Meta.Version, "1.") {
			return nil, fmt.Errorf("version %q of the interface", p.Meta.Version)
		}
		listed = p.Files
	case simpleHTML, "text/html":
		listed, base = parseAnchors(base, body)
	default:
		return nil, fmt.Errorf("content type %q", kind)
	}
	files := make([]pythonFile, 0, len(listed))
	for _, l := range listed {
		if f, ok := l.file(name, base); ok {
			files = append(files, f)
		}
	}
	return files, nil
}

func (l simpleFile) file(name string, base *url.URL) (pythonFile, bool) {
	d, ok := parseFilename(l.Filename, name)
	if !ok {
		return pythonFile{}, false
	}
	address, err := base.Parse(l.URL)
	if err != nil {
		return pythonFile{}, false
	}
	address.Fragment, address.RawFragment = "", ""
	f := pythonFile{distribution: d, name: l.Filename, address: address, hashes: l.Hashes, requiresPython: l.RequiresPython, size: -1}
	if l.Size != nil && *l.Size >= 0 {
		f.size = *l.Size
	}
	f.uploaded, _ = time.Parse(time.RFC3339Nano, l.UploadTime)
	switch yanked := l.Yanked.(type) {
	case bool:
		f.yanked = yanked
	case string:
		f.yanked, f.whyYanked = true, yanked
	}
	f.metadata, f.metadataHashes = metadataOf(l.CoreMetadata)
	if l.CoreMetadata == nil {
		f.metadata, f.metadataHashes = metadataOf(l.OldMetadata)
	}
	return f, true
}

func metadataOf(said any) (bool, map[string]string) {
	switch m := said.(type) {
	case bool:
		return m, nil
	case map[string]any:
		sums := make(map[string]string)
		for algorithm, sum := range m {
			if s, ok := sum.(string); ok {
				sums[algorithm] = s
			}
		}
		return true, sums
	}
	return false, nil
}

// parseAnchors reads the files of a page by PEP 503, and what its addresses are relative to.
func parseAnchors(base *url.URL, body []byte) (listed []simpleFile, from *url.URL) {
	z := nethtml.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case nethtml.ErrorToken:
			return listed, base
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			token := z.Token()
			attributes := make(map[string]string)
			for _, a := range token.Attr {
				attributes[a.Key] = a.Val
			}
			if to, err := base.Parse(attributes["href"]); token.Data == "base" && err == nil {
				base = to
			} else if token.Data == "a" && err == nil && attributes["href"] != "" {
				listed = append(listed, anchored(to, attributes))
			}
		}
	}
}

func anchored(to *url.URL, attributes map[string]string) simpleFile {
	sums := func(text string) map[string]string {
		algorithm, sum, ok := strings.Cut(text, "=")
		if !ok {
			return map[string]string{}
		}
		return map[string]string{algorithm: sum}
	}
	f := simpleFile{Filename: path.Base(to.Path), URL: to.String(), Hashes: sums(to.Fragment), RequiresPython: attributes["data-requires-python"]}
	if why, ok := attributes["data-yanked"]; ok {
		f.Yanked = why
	}
	for _, name := range []string{"data-core-metadata", "data-dist-info-metadata"} {
		if said, ok := attributes[name]; ok && f.CoreMetadata == nil {
			f.CoreMetadata = true
			if found := sums(said); len(found) > 0 {
				f.CoreMetadata = map[string]any{}
				for algorithm, sum := range found {
					f.CoreMetadata = map[string]any{algorithm: sum}
				}
			}
		}
	}
	return f
}

// writeSimple makes the page that a client sees. A file that the policy refuses is listed as yanked, which no client takes
// unless exactly its version is asked for; then it asks for the file, and is told why it does not get it. Where nothing is
// left, all are listed as they are, for the same reason.
func (h *Handler) writeSimple(name string, files []pythonFile, toPip bool) simplePage {
	page := simplePage{Name: name, Files: make([]simpleFile, 0, len(files))}
	page.Meta.Version = "1.1"
	verdicts, left := make([]*fault.Error, len(files)), false
	for i, f := range files {
		verdicts[i] = h.checkPythonFile(name, f)
		left = left || verdicts[i] == nil
	}
	if toPip && left {
		page.Files = noteRefusals(name, files, verdicts)
	}
	seen := make(map[string]bool)
	for i, f := range files {
		l := f.listed(name)
		if verdicts[i] != nil {
			l.CoreMetadata = nil // a resolver would go by it
		}
		if verdicts[i] != nil && left {
			l.Yanked = "refused by the policy of this sandbox"
		}
		page.Files = append(page.Files, l)
		if !seen[f.version] {
			seen[f.version] = true
			page.Versions = append(page.Versions, f.version)
		}
	}
	if slices.ContainsFunc(page.Files, func(l simpleFile) bool { return l.Size == nil }) {
		page.Meta.Version, page.Versions = "1.0", nil // 1.1 promises sizes
	}
	return page
}

// noteRefusals makes entries of a page that tell pip what each rule refuses. Of a range that has refused versions alone it
// says only that there are none, and which versions ask for another Python; so a rule is written as what a version asks for.
// Source distributions beside wheels are not worth a note: nearly every package has them.
func noteRefusals(name string, files []pythonFile, verdicts []*fault.Error) []simpleFile {
	hasWheel := make(map[string]bool)
	for _, f := range files {
		hasWheel[f.version] = hasWheel[f.version] || f.wheel
	}
	notes := make(map[any]simpleFile)
	for i, f := range files {
		if verdicts[i] != nil && (f.wheel || !hasWheel[f.version]) {
			notes[verdicts[i].Fields["setting"]] = simpleFile{
				Filename: f.name, URL: fileURL(name, f) + "?note", Hashes: map[string]string{}, // pip takes one file an address
				RequiresPython: "===" + asVersion(verdicts[i].Error()),
			}
		}
	}
	return slices.Collect(maps.Values(notes))
}

// listed is the file as a page of ours lists it.
func (f pythonFile) listed(name string) simpleFile {
	l := simpleFile{Filename: f.name, URL: fileURL(name, f), Hashes: f.hashes, RequiresPython: f.requiresPython}
	if l.Hashes == nil {
		l.Hashes = map[string]string{}
	}
	if f.size >= 0 {
		l.Size = &f.size
	}
	if !f.uploaded.IsZero() {
		l.UploadTime = f.uploaded.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	switch {
	case f.whyYanked != "":
		l.Yanked = f.whyYanked
	case f.yanked:
		l.Yanked = true
	}
	switch {
	case len(f.metadataHashes) > 0:
		l.CoreMetadata = f.metadataHashes
	case f.metadata:
		l.CoreMetadata = true
	}
	return l
}

// fileURL is a file's address here, as its page refers to it.
func fileURL(name string, f pythonFile) string {
	return "../../files/" + name + "/" + url.PathEscape(f.name)
}

var marks = regexp.MustCompile(`[^A-Za-z0-9]+`)

// asVersion writes words as a version, in the only part of one that takes words. pip 24 fails at what is no version.
func asVersion(words string) string {
	return "0+" + strings.Trim(marks.ReplaceAllStringFunc(words, func(between string) string {
		if between == "_" || between == "-" {
			return between
		}
		return "."
	}), ".-_")
}

// html writes the page by PEP 503.
func (p simplePage) html() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"%s\"><title>%s</title></head><body>\n",
		p.Meta.Version, html.EscapeString(p.Name))
	for _, f := range p.Files {
		attribute := func(name, value string) {
			fmt.Fprintf(&b, " %s=\"%s\"", name, html.EscapeString(value))
		}
		address := f.URL
		if d := strongest(f.Hashes); d.sum != "" {
			address += "#" + d.algorithm + "=" + d.sum
		}
		b.WriteString("<a")
		attribute("href", address)
		if f.RequiresPython != "" {
			attribute("data-requires-python", f.RequiresPython)
		}
		switch yanked := f.Yanked.(type) {
		case bool:
			attribute("data-yanked", "")
		case string:
			attribute("data-yanked", yanked)
		}
		metadata := ""
		switch m := f.CoreMetadata.(type) {
		case bool:
			metadata = "true"
		case map[string]string:
			d := strongest(m)
			metadata = d.algorithm + "=" + d.sum
		}
		if metadata != "" {
			attribute("data-core-metadata", metadata)
			attribute("data-dist-info-metadata", metadata)
		}
		fmt.Fprintf(&b, ">%s</a><br>\n", html.EscapeString(f.Filename))
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}

// wantsJSON reports whether a client prefers JSON to HTML. One that says nothing gets HTML, as PEP 691 has it.
func wantsJSON(accept string) bool {
	best := map[string]string{}
	for part := range strings.SplitSeq(accept, ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := parameters["q"]
		if quality == "" {
			quality = "1"
		}
		switch kind {
		case simpleJSON, "application/vnd.pypi.simple.latest+json":
			best["json"] = max(best["json"], quality)
		case simpleHTML, "application/vnd.pypi.simple.latest+html", "text/html", "*/*", "text/*":
			best["html"] = max(best["html"], quality)
		}
	}
	// Qualities have up to three digits after a point, so that they compare as texts.
	return best["json"] > "0.000" && best["json"] >= best["html"]
}
