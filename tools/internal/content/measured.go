package content

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// ProgressPause lies between two reports of a transfer.
const ProgressPause = 500 * time.Millisecond

// Measured is a stream on its way that is counted, hashed and bounded.
type Measured struct {
	Size int64
	Head []byte // its first SniffBytes

	from         io.Reader
	limit, total int64
	report       func(done, total int64)
	sum          hash.Hash
	reported     time.Time
}

// Measure reads from a stream of at most limit bytes, with 0 for no limit; total is how many are expected, or below 0.
// report, if not nil, hears how far the transfer is, now and then.
func Measure(from io.Reader, limit, total int64, report func(done, total int64)) *Measured {
	return &Measured{from: from, limit: limit, total: total, report: report, sum: sha256.New(), reported: time.Now()}
}

// Read reads and counts. It fails with the fault upload_too_large beyond the limit.
func (m *Measured) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.Size += int64(n)
	if m.limit > 0 && m.Size > m.limit {
		return 0, UploadTooLarge(m.limit)
	}
	m.sum.Write(p[:n])
	if missing := SniffBytes - len(m.Head); missing > 0 {
		m.Head = append(m.Head, p[:min(n, missing)]...)
	}
	if now := time.Now(); m.report != nil && now.Sub(m.reported) >= ProgressPause {
		m.reported = now
		m.report(m.Size, m.total)
	}
	return n, err
}

// SHA256 returns the hash of the bytes read, in hexadecimal digits.
func (m *Measured) SHA256() string { return hex.EncodeToString(m.sum.Sum(nil)) }

// UploadTooLarge refuses content of more than limit bytes.
func UploadTooLarge(limit int64) *fault.Error {
	return fault.New(fault.UploadTooLarge, "Upload it in parts, or compressed; a url may be larger.",
		"The content has more than %s, the most that an upload may have.", humanize.Bytes(uint64(limit))).
		With("limit_bytes", limit)
}
