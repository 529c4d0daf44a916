package packages

import (
	"sync"
	"time"
)

const (
	freshFor     = 10 * time.Minute
	maxPages     = 128 << 20 // bytes of pages that are kept, as they came
	maxPage      = 64 << 20  // of one page, decompressed
	maxPageTime  = time.Minute
	pageOverhead = 1 << 10
)

// page is what an index said of a package. It is not changed once it is kept.
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
