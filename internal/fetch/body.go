package fetch

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
)

// body reads a response within its bounds.
type body struct {
	fetcher    *Fetcher
	ctx        context.Context // of this one download; tells why a read failed
	cancel     context.CancelFunc
	raw        io.ReadCloser
	host       string
	read       io.Reader
	compressed bool // for the way, which read undoes
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.read.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.fetcher.failure(b.ctx, b.host, err)
	}
	return n, err
}

// Close ends the download. It may be called again.
func (b *body) Close() error {
	b.cancel()
	return b.raw.Close()
}

// decode undoes a compression that the server used although it was asked not to, as stores with compressed files do. A file with a name for
// a compressed one stays so.
func (b *body) decode(response *http.Response, name string) error {
	most := b.fetcher.options.MaxBytes
	b.read = &limitedReader{from: response.Body, left: most, over: b.fetcher.tooLarge()}
	encoding := strings.ToLower(strings.TrimSpace(response.Header.Get("Content-Encoding")))
	switch encoding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		if ext := strings.ToLower(path.Ext(name)); ext == ".gz" || ext == ".tgz" {
			return nil
		}
	default:
		return encodingError(clip(encoding, 40))
	}
	plain, err := gzip.NewReader(b.read)
	if err != nil {
		return err
	}
	b.compressed = true
	b.read = &limitedReader{from: plain, left: most, over: b.fetcher.tooLarge()}
	return nil
}

// encodingError is a compression that cannot be undone here.
type encodingError string

func (e encodingError) Error() string {
	return fmt.Sprintf("it sent the file in the encoding %q, which was not asked for", string(e))
}

// limitedReader fails with over when there is more than it may give.
type limitedReader struct {
	from io.Reader
	left int64
	over error
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	// One byte more than the rest shows whether there is more.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.from.Read(p)
	if int64(n) > l.left {
		return int(l.left), l.over
	}
	l.left -= int64(n)
	return n, err
}
