package fetch

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
)

// body reads a response within its bounds.
type body struct {
	ctx        context.Context //nolint:containedctx // of this one download; tells why a read failed
	raw        io.ReadCloser
	decompress *gzip.Reader // nil where the body is as it came
	read       io.Reader
}

// Read gives the body and fails when a bound is passed.
func (b *body) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	return b.read.Read(p)
}

// decoded undoes a compression that the server used although it was asked not to, as stores do that
// keep files compressed. A file whose own name says that it is compressed stays so.
func (f *Fetcher) decoded(ctx context.Context, response *http.Response, name string) (*body, error) {
	limited := &limitedReader{from: response.Body, left: f.options.MaxBytes, over: f.tooLarge()}
	b := &body{ctx: ctx, raw: response.Body, read: limited}
	encoding := strings.ToLower(strings.TrimSpace(response.Header.Get("Content-Encoding")))
	switch encoding {
	case "", "identity":
		return b, nil
	case "gzip", "x-gzip":
		if ext := strings.ToLower(path.Ext(name)); ext == ".gz" || ext == ".tgz" {
			return b, nil
		}
	default:
		return nil, encodingError(clip(encoding, 40))
	}
	decompress, err := gzip.NewReader(limited)
	if err != nil {
		return nil, err
	}
	b.decompress = decompress
	b.read = &limitedReader{from: decompress, left: f.options.MaxBytes, over: f.tooLarge()}
	return b, nil
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
	// One byte more than what is left shows whether there is more.
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
