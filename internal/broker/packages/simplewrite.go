package packages

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// overview is what has to be known of all files of a page before the first is written.
type overview struct {
	versions []string
	hasWheel map[string]bool // by the version, true or false for each that there is
	sized    bool            // all sizes are known
	left     bool            // the policy leaves something
}

func (h *Handler) overview(page pythonPage) overview {
	o := overview{hasWheel: make(map[string]bool), sized: true}
	for f := range page.files() {
		had, seen := o.hasWheel[f.version]
		if !seen {
			o.versions = append(o.versions, f.version)
		}
		o.hasWheel[f.version] = had || f.wheel
		o.sized = o.sized && f.size >= 0
		o.left = o.left || h.checkPythonFile(page.name, f) == nil
	}
	return o
}

// listings makes the page that a client sees. A file that the policy refuses is listed as yanked, which no client takes
// unless exactly its version is asked for; then it asks for the file, and is told why it does not get it. Where nothing is
// left, all are listed as they are, for the same reason.
func (h *Handler) listings(page pythonPage, o overview) iter.Seq[simpleFile] {
	return func(yield func(simpleFile) bool) {
		for f := range page.files() {
			l := f.listed(page.name)
			if h.checkPythonFile(page.name, f) != nil {
				l.CoreMetadata = nil // a resolver would go by it
				if o.left {
					l.Yanked = "refused by the policy of this sandbox"
				}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// noteRefusals makes entries of a page that tell pip what each rule refuses. Of a range that has refused versions alone it
// says only that there are none, and which versions ask for another Python; so a rule is written as what a version asks for.
// Source distributions beside wheels are not worth a note: nearly every package has them.
func (h *Handler) noteRefusals(page pythonPage, o overview) []simpleFile {
	notes := make(map[any]simpleFile)
	for f := range page.files() {
		refused := h.checkPythonFile(page.name, f)
		if refused != nil && (f.wheel || !o.hasWheel[f.version]) {
			notes[refused.Fields["setting"]] = simpleFile{
				Filename: f.name, URL: fileURL(page.name, f) + "?note", Hashes: map[string]string{}, // pip takes one file an address
				RequiresPython: "===" + asVersion(refused.Error()),
			}
		}
	}
	return slices.Collect(maps.Values(notes))
}

// all returns the notes and the files of a page.
func (h *Handler) all(page pythonPage, toPip bool) (o overview, entries iter.Seq[simpleFile]) {
	o = h.overview(page)
	var notes []simpleFile
	if toPip && o.left {
		notes = h.noteRefusals(page, o)
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
func (h *Handler) writeJSON(out *bufio.Writer, page pythonPage, toPip bool) {
	o, entries := h.all(page, toPip)
	fmt.Fprintf(out, `{"meta":{"api-version":%q},"name":%q`, o.version(), page.name)
	if o.sized && len(o.versions) > 0 {
		versions, _ := json.Marshal(o.versions) // of texts
		fmt.Fprintf(out, `,"versions":%s`, versions)
	}
	_, _ = out.WriteString(`,"files":[`)
	between := ""
	for l := range entries {
		text, _ := json.Marshal(l) // of what was parsed
		_, _ = out.WriteString(between)
		if _, err := out.Write(text); err != nil {
			return // the client has hung up
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

// asVersion writes words as a version, in the only part of one that takes words. pip 24 fails at what is no version.
func asVersion(words string) string {
	return "0+" + strings.Trim(marks.ReplaceAllStringFunc(words, func(between string) string {
		if between == "_" || between == "-" {
			return between
		}
		return "."
	}), ".-_")
}

// writeHTML writes the page by PEP 503.
func (h *Handler) writeHTML(out *bufio.Writer, page pythonPage, toPip bool) {
	o, entries := h.all(page, toPip)
	fmt.Fprintf(out, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"%s\"><title>%s</title></head><body>\n",
		o.version(), html.EscapeString(page.name))
	for l := range entries {
		if err := l.anchor(out); err != nil {
			return // the client has hung up
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
