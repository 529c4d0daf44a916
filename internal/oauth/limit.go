// How often somebody may try.

package oauth

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	limitTime = 10 * time.Minute
	// maxAddresses is how many are counted apart; those that come then share a count.
	maxAddresses = 10_000
)

// limiter counts what comes from an address in ten minutes. Behind a proxy all have the same.
type limiter struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	began  time.Time
	counts map[netip.Addr]int
}

// allow counts a request, and reports whether it may be served.
func (l *limiter) allow(r *http.Request) bool { return l.add(r, 1) }

// exhausted reports whether no more may be tried, and counts nothing.
func (l *limiter) exhausted(r *http.Request) bool { return !l.add(r, 0) }

func (l *limiter) add(r *http.Request, n int) bool {
	from := addressOf(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.counts == nil || now.Sub(l.began) >= limitTime {
		l.began, l.counts = now, make(map[netip.Addr]int)
	}
	if _, known := l.counts[from]; !known && len(l.counts) >= maxAddresses {
		from = netip.Addr{}
	}
	if n == 0 {
		return l.counts[from] < l.most
	}
	l.counts[from] += n
	return l.counts[from] <= l.most
}

// addressOf is where a request came from: of IPv6 the network, as one has as many addresses in it as one likes.
func addressOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return address
}
