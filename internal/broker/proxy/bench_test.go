package proxy

import (
	"io"
	"net/http"
	"testing"
)

// BenchmarkRequest shows what a request costs, with a body of 100 KB that is masked where the host has a secret.
func BenchmarkRequest(b *testing.B) {
	page := make([]byte, 100_000)
	for i := range page {
		page[i] = "A line of a page, as hosts have them.\n"[i%38]
	}
	handler := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }
	for name, address := range map[string]string{"plain": "http://public.example/", "tunnel": "https://public.example/", "secret": "https://api.example/"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, Options{Mode: Open, Secrets: []Secret{theSecret}}, handler)
			client := w.client()
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				response, err := client.Get(address)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
}
