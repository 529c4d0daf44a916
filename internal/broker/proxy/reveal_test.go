package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func FuzzRevealingBody(f *testing.F) {
	key := theSecret.Placeholder()
	for _, seed := range []string{"", key, key[:20], "a" + key + key + key[:30], "sandbox-sandbox-secret-" + key, key[:len(key)-1] + key} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	rt := &route{secrets: []Secret{theSecret, {Name: "API", Value: "another-value"}}}
	all := func(Secret) bool { return true }
	f.Fuzz(func(t *testing.T, text string, inBytes bool) {
		var from io.Reader = strings.NewReader(text)
		if inBytes {
			from = iotest.OneByteReader(from)
		}
		body := &revealingBody{ReadCloser: io.NopCloser(from), replacer: rt.replacer(all, plainly), placeholders: rt.placeholders(all)}
		got, err := io.ReadAll(body)
		if want := rt.replacer(all, plainly).Replace(text); err != nil || string(got) != want {
			t.Errorf("%q became %q instead of %q (%v)", text, got, want, err)
		}
	})
}
