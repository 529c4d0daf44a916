package stdio

import (
	"bufio"
	"io"
	"runtime"
	"strings"
	"testing"
)

// An upload's line is kept once: what else is allocated on its way is the copy that the
// tool makes when it decodes its arguments, and small change.
func TestUploadIsHeldOnce(t *testing.T) {
	const size, limit = 16 << 20, 24 << 20
	inReader, in := io.Pipe()
	outReader, out := io.Pipe()
	finished := make(chan error, 1)
	go func() {
		finished <- Serve(t.Context(), newFixture().server, inReader, out, Options{MaxLineBytes: limit})
	}()
	line := []byte(toolCall("1", "size", `{"content":"`+strings.Repeat("x", size)+`"}`, "{}") + "\n")

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := in.Write(line); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(outReader).ReadString('\n')
	if err != nil || !strings.Contains(answer, "16777216") {
		t.Fatalf("%s, %v", answer, err)
	}
	runtime.ReadMemStats(&after)
	// One buffer of the largest line (24 MiB), its smaller beginnings (9 MiB), the copy (16 MiB).
	if got := after.TotalAlloc - before.TotalAlloc; got > 56<<20 {
		t.Errorf("%d MiB were allocated for a line of %d MiB", got>>20, size>>20)
	}
	_ = in.Close()
	if err := <-finished; err != nil {
		t.Error(err)
	}
}
