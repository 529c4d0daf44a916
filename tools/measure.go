package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/stdio"
)

// progressPause lies between two reports of a transfer.
const progressPause = 500 * time.Millisecond

// measured is a stream on its way that is counted, hashed and bounded.
type measured struct {
	from  io.Reader
	limit int64 // bytes; 0: none
	total int64 // bytes that are expected, or below 0
	// report, if not nil, hears how far the transfer is, now and then.
	report func(done, total int64)

	size     int64
	sum      hash.Hash
	head     []byte // what a type is told by
	reported time.Time
}

func newMeasured(from io.Reader, limit, total int64, report func(done, total int64)) *measured {
	return &measured{from: from, limit: limit, total: total, report: report, sum: sha256.New(), reported: time.Now()}
}

// Read passes on what it read. More than the limit is the fault upload_too_large.
func (m *measured) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.size += int64(n)
	if m.limit > 0 && m.size > m.limit {
		return 0, uploadTooLarge(m.limit)
	}
	m.sum.Write(p[:n])
	if missing := sniffBytes - len(m.head); missing > 0 {
		m.head = append(m.head, p[:min(n, missing)]...)
	}
	if now := time.Now(); m.report != nil && now.Sub(m.reported) >= progressPause {
		m.reported = now
		m.report(m.size, m.total)
	}
	return n, err
}

func (m *measured) sha256() string { return hex.EncodeToString(m.sum.Sum(nil)) }

func uploadTooLarge(limit int64) *fault.Error {
	return fault.New(fault.UploadTooLarge, "Upload it in parts, or compressed; a url may be larger.",
		"The content has more than %s, the most that an upload may have.", humanize.Bytes(uint64(limit))).
		With("limit_bytes", limit)
}

// transferProgress reports a transfer to a client that asked for it.
func transferProgress(ctx context.Context) func(done, total int64) {
	return func(done, total int64) {
		stdio.NotifyProgress(ctx, float64(done), float64(total), humanize.Bytes(uint64(done)))
	}
}
