package packages

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
)

const (
	freshFor     = 10 * time.Minute
	maxPages     = maxKept  // bytes of memory that pages take which are kept
	maxPage      = 64 << 20 // of one page as it comes, decompressed
	maxKept      = 24 << 20 // of one page in memory
	usualRoom    = caller.PerSession / 16
	maxPageTime  = time.Minute
	pageOverhead = 1 << 10
)

// Of a session's memory, a request gets usualRoom: 16 are answered at a time, and the others wait. A request for a larger page gets maxKept,
// which is half of it.

// page is an index's data on a package. It does not change once it is kept.
type page struct {
	parsed any
	bytes  int64
	etag   string
	asked  time.Time // when the index said so, or said that it still holds
	used   time.Time
}

// pages keeps the pages that were used last. The zero value is ready for use by any goroutine.
type pages struct {
	mu    sync.Mutex
	kept  map[string]page
	bytes int64
}

func (p *pages) get(key string, now time.Time) (page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.kept[key]
	if ok {
		found.used = now
		p.kept[key] = found
	}
	return found, ok
}

func (p *pages) put(key string, added page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = make(map[string]page)
	}
	p.bytes += added.bytes - p.kept[key].bytes
	p.kept[key] = added
	for p.bytes > maxPages && len(p.kept) > 1 {
		var oldest string
		for other, page := range p.kept {
			if other != key && (oldest == "" || page.used.Before(p.kept[oldest].used)) {
				oldest = other
			}
		}
		p.bytes -= p.kept[oldest].bytes
		delete(p.kept, oldest)
	}
}

// pageBody is a page while it is received. Its error is that of the connection, not of the page's content.
type pageBody struct {
	from  io.Reader
	host  string
	bytes int
	err   error
}

func (b *pageBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.bytes += n
	if b.bytes > maxPage {
		err = failed(b.host, fmt.Sprintf("its page has more than %d MiB", maxPage>>20))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
