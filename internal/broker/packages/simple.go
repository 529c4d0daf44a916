package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	nethtml "golang.org/x/net/html"
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

// pythonPage is an index's list of a package's files.
type pythonPage struct {
	name   string
	listed packed // of each file a simpleFile as JSON, with its whole address
}

// files returns the listed files, in their order.
func (p pythonPage) files() iter.Seq[pythonFile] {
	return func(yield func(pythonFile) bool) {
		for record := range p.listed.each(1) {
			var l simpleFile
			_ = json.Unmarshal(record[0], &l) // it was written here
			if f, ok := l.file(p.name, &url.URL{}); ok && !yield(f) {
				return
			}
		}
	}
}

// simpleFile is a file in PEP 691's JSON. Only the fields that are passed on are read, and written.
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
func parseSimple(name string, response *http.Response, body io.Reader, into *packer) (any, error) {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	base := response.Request.URL
	list := func(l simpleFile) error {
		f, ok := l.file(name, base)
		if !ok {
			return into.list()
		}
		l.URL = f.address.String()
		text, err := json.Marshal(l)
		return errors.Join(err, into.list(), into.add(text))
	}
	switch kind {
	case simpleJSON:
		err = parseListing(body, list)
	case simpleHTML, "text/html":
		err = parseAnchors(base, body, list)
	default:
		err = fmt.Errorf("content type %q", kind)
	}
	return pythonPage{name, into.close()}, err
}

func parseListing(body io.Reader, list func(simpleFile) error) error {
	var meta struct {
		Version string `json:"api-version"`
	}
	v := readValues(body)
	err := v.object(func(name string) error {
		switch name {
		case "meta":
			return v.into(&meta)
		case "files":
			return v.list(func() error {
				var l simpleFile
				if err := v.into(&l); err != nil {
					return err
				}
				return list(l)
			})
		}
		_, err := v.raw()
		return err
	})
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(meta.Version, "1."):
		return fmt.Errorf("version %q of the interface", meta.Version)
	}
	return v.end()
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

// parseAnchors reads the files of a page by PEP 503.
func parseAnchors(base *url.URL, body io.Reader, list func(simpleFile) error) error {
	z := nethtml.NewTokenizer(body)
	z.SetMaxBuf(maxValue)
	for {
		switch z.Next() {
		case nethtml.ErrorToken:
			if errors.Is(z.Err(), io.EOF) {
				return nil
			}
			return z.Err()
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			token := z.Token()
			attributes := make(map[string]string)
			for _, a := range token.Attr {
				attributes[a.Key] = a.Val
			}
			to, err := base.Parse(attributes["href"])
			if token.Data == "base" && err == nil {
				base = to
			} else if token.Data == "a" && err == nil && attributes["href"] != "" {
				if err := list(anchored(to, attributes)); err != nil {
					return err
				}
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

// wantsJSON reports whether a client prefers JSON to HTML. Without a preference it gets HTML, as PEP 691 demands.
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
	// Qualities use up to three digits after a point, so that they compare as texts.
	return best["json"] > "0.000" && best["json"] >= best["html"]
}
