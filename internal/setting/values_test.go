package setting

import (
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A size is parsed as what it was printed for.
func TestSizesArePrintedExactly(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1: "1", 1000: "1000", 100 << 10: "102400", 1 << 20: "1MiB", 50_000_000: "50000000", 1_000_448: "1000448",
		1025 << 20: "1025MiB", 1536 << 20: "1536MiB", 1<<30 + 1024: "1048577KiB", 1<<30 + 1: "1073741825", 2 << 30: "2GiB",
		3 << 40: "3TiB", 1 << 50: "1PiB", 1 << 62: "4096PiB",
	} {
		var size, again int64
		size = n
		printed := Size(&size).String()
		err := Size(&again).Set(printed)
		should.Hold(t, err == nil && printed == want && again == n, "%d is printed as %s, which is %d (%v)", n, printed, again, err)
	}
}
