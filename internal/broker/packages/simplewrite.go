package packages

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// overview holds the facts on all files of a page that are needed before the first is written.
type overview struct {
	versions []string
	hasWheel map[string]bool // by the version, true or false for each that there is
	sized    bool            // all sizes are known
	left     bool            // the policy leaves something
	notes    map[any]note    // the refusals, by the setting
}

// note is a rule's refusal on a page, with the last file that it refused.
type note struct {
	words string
	file  pythonFile
}

// why lists the refusals, a line for each rule.
func (o overview) why() string {
	var lines []string
	for _, n := range o.notes {
		lines = append(lines, n.words)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (h *Handler) overview(page pythonPage) overview {
	o := overview{hasWheel: make(map[string]bool), sized: true, notes: make(map[any]note)}
	for f := range page.files() {
		had, seen := o.hasWheel[f.version]
		if !seen {
			o.versions = append(o.versions, f.version)
		}
		o.hasWheel[f.version] = had || f.wheel
		o.sized = o.sized && f.size >= 0
		o.left = o.left || h.checkPythonFile(page.name, f) == nil
	}
	for f := range page.files() {
		// Source distributions beside wheels are not worth a note: nearly every package offers them.
		if refused := h.checkPythonFile(page.name, f); refused != nil && (f.wheel || !o.hasWheel[f.version]) {
			o.notes[refused.Fields["setting"]] = note{plain(text.Shorten(refused.Error(), 400)), f}
		}
	}
	return o
}

// listings makes the page that a client sees. A file that the policy refuses is listed as yanked, which no client takes
// unless exactly its version is asked for; then it asks for the file, and is told why it does not get it. uv prints the reason
// where it finds no other. Where nothing is left, all are listed as they are, for the same reason.
func (h *Handler) listings(page pythonPage, o overview) iter.Seq[simpleFile] {
	return func(yield func(simpleFile) bool) {
		for f := range page.files() {
			l := f.listed(page.name)
			if refused := h.checkPythonFile(page.name, f); refused != nil {
				l.CoreMetadata = nil // a resolver would go by it
				if o.left {
					l.Yanked = cmp.Or(o.notes[refused.Fields["setting"]].words, refused.Error())
				}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// pipNotes makes entries of a page that tell pip what each rule refuses. For a range of refused versions alone pip says only that there are
// none, and which versions need another Python; so a rule is written as the Python that a version needs. The entry is a wheel for every
// system, published long ago: pip looks at that first, and takes one file an address.
func (o overview) pipNotes(page pythonPage) (notes []simpleFile) {
	for setting, n := range o.notes {
		f := pythonFile{name: strings.ReplaceAll(page.name, "-", "_") + "-" + n.file.version + "-py3-none-any.whl"}
		notes = append(notes, simpleFile{
			Filename: f.name, URL: fileURL(page.name, f) + "?note" + fmt.Sprint(setting), Hashes: map[string]string{},
			RequiresPython: "===" + asVersion(n.words), UploadTime: "1970-01-01T00:00:00.000000Z",
		})
	}
	return notes
}

// all returns the notes and the files of a page.
func (h *Handler) all(page pythonPage, o overview, toPip bool) (overview, iter.Seq[simpleFile]) {
	var notes []simpleFile
	if toPip && o.left {
		notes = o.pipNotes(page)
	}
	if len(notes) > 0 {
		o.sized = false
	}
	return o, func(yield func(simpleFile) bool) {
		for _, note := range notes {
			if !yield(note) {
				return
			}
		}
		h.listings(page, o)(yield)
	}
}

// writeJSON writes the page by PEP 691.
func (h *Handler) writeJSON(out *bufio.Writer, page pythonPage, o overview, toPip bool) {
	o, entries := h.all(page, o, toPip)
	fmt.Fprintf(out, `{"meta":{"api-version":%q},"name":%q`, o.version(), page.name)
	if o.sized && len(o.versions) > 0 {
		versions, _ := json.Marshal(o.versions) // of texts
		fmt.Fprintf(out, `,"versions":%s`, versions)
	}
	_, _ = out.WriteString(`,"files":[`)
	between := ""
	for l := range entries {
		text, _ := json.Marshal(l) // of parsed data
		_, _ = out.WriteString(between)
		if _, err := out.Write(text); err != nil {
			return // the client hung up
		}
		between = ","
	}
	_, _ = out.WriteString("]}")
}

// version is that of the interface: 1.1 promises sizes.
func (o overview) version() string {
	if o.sized {
		return "1.1"
	}
	return "1.0"
}

var marks = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Printed reports whether a client printed the words of a refusal, in one of its ways.
func Printed(output, words string) bool {
	return strings.Contains(output, words) || strings.Contains(output, strings.TrimPrefix(asVersion(words), "0+"))
}

// asVersion writes words as a version, in the only part of one that takes words. pip 24 fails at an invalid version.
func asVersion(words string) string {
	return "0+" + strings.Trim(marks.ReplaceAllStringFunc(words, func(between string) string {
		if between == "_" || between == "-" {
			return between
		}
		return "."
	}), ".-_")
}

// writeHTML writes the page by PEP 503.
func (h *Handler) writeHTML(out *bufio.Writer, page pythonPage, o overview, toPip bool) {
	o, entries := h.all(page, o, toPip)
	fmt.Fprintf(out, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"%s\"><title>%s</title></head><body>\n",
		o.version(), html.EscapeString(page.name))
	for l := range entries {
		if err := l.anchor(out); err != nil {
			return // the client hung up
		}
	}
	_, _ = out.WriteString("</body></html>\n")
}

func (l simpleFile) anchor(out *bufio.Writer) error {
	attribute := func(name, value string) {
		fmt.Fprintf(out, " %s=\"%s\"", name, html.EscapeString(value))
	}
	address := l.URL
	if d := strongest(l.Hashes); d.sum != "" {
		address += "#" + d.algorithm + "=" + d.sum
	}
	_, _ = out.WriteString("<a")
	attribute("href", address)
	if l.RequiresPython != "" {
		attribute("data-requires-python", l.RequiresPython)
	}
	switch yanked := l.Yanked.(type) {
	case bool:
		attribute("data-yanked", "")
	case string:
		attribute("data-yanked", yanked)
	}
	metadata := ""
	switch m := l.CoreMetadata.(type) {
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
	_, err := fmt.Fprintf(out, ">%s</a><br>\n", html.EscapeString(l.Filename))
	return err
}
