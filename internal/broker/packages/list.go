package packages

import (
	"crypto/sha1" //nolint:gosec // npm's registry lists this alone for old tarballs
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	nethtml "golang.org/x/net/html"
)

// list holds a package's files, as its index lists them. It does not change once it is kept.
type list struct {
	files map[string]*listed // by index.key of their address
	bytes int
	asked time.Time // when the index said so
}

// listed is a file, as its index lists it.
type listed struct {
	name      string
	version   string
	isSource  bool // of Python, to be built
	address   string
	digest    digest
	metadata  digest // of the METADATA beside it (PEP 658)
	size      int64
	published time.Time // zero: it does not say
}

const (
	unknown  = -1 // size
	freshFor = 10 * time.Minute
	maxLists = 24 << 20 // bytes of memory that lists take which are kept
	// maxValue bounds one value of a page that is read at once, such as the data on a version.
	maxValue = 2 << 20
	// maxListed is the most values of a page that are read one by one. The largest known pages list some ten thousand files.
	maxListed = 100_000
	// overhead is about the memory of a file beside its texts.
	overhead = 300
)

var errHeavy = fmt.Errorf("it lists more files than fit into %d MiB", room>>20)

func (l *list) add(x *index, base *url.URL, address string, f listed) error {
	u, err := base.Parse(address)
	if err != nil {
		return nil //nolint:nilerr // no client could ask for it
	}
	u.Fragment, u.RawFragment = "", ""
	key := x.key(u)
	f.address = u.String()
	l.files[key] = &f
	l.bytes += len(key) + len(f.address) + len(f.name) + len(f.version) + len(f.digest.sum) + len(f.metadata.sum) + overhead
	if l.bytes > room {
		return errHeavy
	}
	return nil
}

// list reads a page.
func (x *index) list(name string, came origin, page io.Reader) (l *list, err error) {
	l = &list{files: make(map[string]*listed), bytes: overhead}
	base, s := came.address, readStream(page)
	kind, _, err := mime.ParseMediaType(came.kind)
	switch {
	case x.kind == NPM:
		err = x.listVersions(l, base, s)
	case kind == simpleJSON:
		err = s.each('{', func(member string) error {
			if member != "files" {
				return s.skip()
			}
			return s.each('[', func(string) error {
				var f simpleFile
				if err := s.into(&f); err != nil {
					return err
				}
				return x.listFile(l, name, base, f)
			})
		})
	case kind == "text/html" || kind == "application/vnd.pypi.simple.v1+html":
		err = x.listAnchors(l, name, base, page)
	default:
		err = fmt.Errorf("its content type is %q: %w", clip(kind), err)
	}
	return l, err
}

// simpleFile is a file in PEP 691's JSON.
type simpleFile struct {
	Filename     string          `json:"filename"`
	URL          string          `json:"url"`
	Hashes       sums            `json:"hashes"`
	CoreMetadata json.RawMessage `json:"core-metadata"` // true, or hashes
	Size         *int64          `json:"size"`
	UploadTime   string          `json:"upload-time"`
}

func (x *index) listFile(l *list, name string, base *url.URL, f simpleFile) error {
	d, ok := parseFilename(f.Filename, name)
	if !ok {
		return nil
	}
	entry := listed{name: f.Filename, version: d.version, isSource: !d.wheel, digest: f.Hashes.strongest(), size: unknown}
	var metadata sums
	if json.Unmarshal(f.CoreMetadata, &metadata) == nil {
		entry.metadata = metadata.strongest()
	}
	if f.Size != nil && *f.Size >= 0 {
		entry.size = *f.Size
	}
	entry.published, _ = time.Parse(time.RFC3339Nano, f.UploadTime)
	return l.add(x, base, f.URL, entry)
}

// listAnchors reads a page by PEP 503.
func (x *index) listAnchors(l *list, name string, base *url.URL, page io.Reader) error {
	z := nethtml.NewTokenizer(page)
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
			for _, a := range token.Attr {
				to, err := base.Parse(a.Val)
				switch {
				case a.Key != "href" || err != nil:
				case token.Data == "base":
					base = to
				case token.Data == "a":
					algorithm, sum, _ := strings.Cut(to.Fragment, "=")
					f := simpleFile{Filename: path.Base(to.Path), URL: to.String()}
					if algorithm == "sha256" {
						f.Hashes.SHA256 = sum
					}
					if err := x.listFile(l, name, base, f); err != nil {
						return err
					}
				}
			}
		}
	}
}

// listVersions reads a registry's data on a package.
func (x *index) listVersions(l *list, base *url.URL, s *stream) error {
	times, versions := make(map[string]time.Time), make(map[string]string)
	err := s.each('{', func(member string) error {
		switch member {
		case "versions":
			return s.each('{', func(number string) error {
				var m struct {
					Dist struct {
						Tarball, Integrity, Shasum string
					}
				}
				if err := s.into(&m); err != nil {
					return err
				}
				u, err := base.Parse(m.Dist.Tarball)
				if err != nil {
					return nil //nolint:nilerr // no client could ask for it
				}
				versions[number] = x.key(u)
				return l.add(x, base, m.Dist.Tarball, listed{
					name: path.Base(u.Path), version: number, size: unknown, digest: integrity(m.Dist.Integrity, m.Dist.Shasum),
				})
			})
		case "time":
			return s.each('{', func(number string) error {
				var at json.RawMessage // of a package that was taken away, one is an object
				var t time.Time
				if err := s.into(&at); err != nil {
					return err
				}
				if l.bytes += overhead; l.bytes > room {
					return errHeavy
				}
				if json.Unmarshal(at, &t) == nil {
					times[number] = t
				}
				return nil
			})
		}
		return s.skip()
	})
	for number, key := range versions {
		l.files[key].published = times[number]
	}
	return err
}

// lists keeps the lists that were asked for last. The zero value is ready for use by any goroutine.
type lists struct {
	mu    sync.Mutex
	kept  map[string]*list
	bytes int
}

func (c *lists) get(key string) *list {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[key]
}

func (c *lists) put(key string, added *list) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = make(map[string]*list)
	}
	if had := c.kept[key]; had != nil {
		c.bytes -= had.bytes
	}
	c.kept[key], c.bytes = added, c.bytes+added.bytes
	for c.bytes > maxLists {
		oldest := key
		for other, l := range c.kept {
			if l.asked.Before(c.kept[oldest].asked) {
				oldest = other
			}
		}
		c.bytes -= c.kept[oldest].bytes
		delete(c.kept, oldest)
	}
}

// digest is the hash that an index lists for a file; the zero digest if it lists none.
type digest struct{ algorithm, sum string }

// String identifies a file by its content.
func (d digest) String() string { return d.algorithm + ":" + d.sum }

func (d digest) hash() hash.Hash {
	switch d.algorithm {
	case "sha512":
		return sha512.New()
	case "sha1":
		return sha1.New() //nolint:gosec // as above
	}
	return sha256.New()
}

func hexOf(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)) }

// sums are hashes in hexadecimal digits.
type sums struct {
	SHA512 string `json:"sha512"`
	SHA256 string `json:"sha256"`
	SHA1   string `json:"sha1"`
}

func (s sums) strongest() digest {
	for _, d := range []digest{{"sha512", s.SHA512}, {"sha256", s.SHA256}, {"sha1", s.SHA1}} {
		if d.sum = strings.ToLower(d.sum); d.sum != "" {
			return d
		}
	}
	return digest{}
}

// integrity reads a version's hashes: by Subresource Integrity, or an old sum alone.
func integrity(written, shasum string) digest {
	s := sums{SHA1: shasum}
	for part := range strings.FieldsSeq(written) {
		algorithm, sum, _ := strings.Cut(part, "-")
		sum, _, _ = strings.Cut(sum, "?") // options follow, and npm defines none yet
		raw, err := base64.StdEncoding.DecodeString(sum)
		switch {
		case err != nil:
		case algorithm == "sha512":
			s.SHA512 = hex.EncodeToString(raw)
		case algorithm == "sha256":
			s.SHA256 = hex.EncodeToString(raw)
		}
	}
	return s.strongest()
}

// stream reads JSON value by value, so that a page is never in memory as a whole.
type stream struct {
	*json.Decoder
	source *io.LimitedReader // as much as one value may have
	read   int               // values
}

func readStream(from io.Reader) *stream {
	source := &io.LimitedReader{R: from}
	return &stream{Decoder: json.NewDecoder(source), source: source}
}

// each reads the elements of a list, or an object's members, by one, which reads the value.
func (s *stream) each(bracket json.Delim, one func(name string) error) error {
	s.source.N = maxValue
	token, err := s.Token()
	if err == nil && token != bracket {
		err = fmt.Errorf("%v where %v is expected", token, bracket)
	}
	for err == nil && s.More() {
		var name string
		s.source.N = maxValue
		if s.read++; s.read > maxListed {
			return fmt.Errorf("it has more than %d entries", maxListed)
		}
		if bracket == '{' {
			token, err = s.Token()
			name, _ = token.(string)
		}
		if err == nil {
			err = one(name)
		}
	}
	if err == nil {
		_, err = s.Token()
	}
	return err
}

func (s *stream) into(value any) error {
	s.source.N = maxValue
	return s.Decode(value)
}

func (s *stream) skip() error {
	var raw json.RawMessage
	return s.into(&raw)
}
