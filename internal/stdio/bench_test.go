package stdio

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// benchmark times one exchange of lines with a Serve over real pipes.
func benchmark(b *testing.B, line string) {
	inReader, in, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	outReader, out, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	finished := make(chan error, 1)
	go func() { finished <- Serve(b.Context(), newFixture().server, inReader, out, Options{}) }()
	line += "\n"
	answers := bufio.NewReader(outReader)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := in.WriteString(line); err != nil {
			b.Fatal(err)
		}
		if _, err := answers.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	_ = in.Close()
	if err := <-finished; err != nil {
		b.Error(err)
	}
	_ = inReader.Close()
	_ = out.Close()
	_ = outReader.Close()
}

func BenchmarkCall(b *testing.B) {
	benchmark(b, toolCall("1", "echo", `{"text":"x"}`, "{}"))
}

func BenchmarkCallModern(b *testing.B) {
	benchmark(b, toolCall("1", "echo", `{"text":"x"}`, modernMeta))
}

func BenchmarkPing(b *testing.B) {
	benchmark(b, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

func BenchmarkUpload50MB(b *testing.B) {
	benchmark(b, toolCall("1", "size", `{"content":"`+strings.Repeat("x", 50_000_000)+`"}`, "{}"))
}
