package containers

import (
	"regexp"
	"strings"
	"testing"
)

func TestPublishedImagesAreNamedByTheirDigests(t *testing.T) {
	recipe := Standard()
	digest := "sha256:" + strings.Repeat("c", 64)
	p := Published{Registry: "registry.example.com/team", Digests: map[string]string{recipe.Hash: digest}}
	if ref, want := p.Ref(recipe), "registry.example.com/team/code-sandbox-mcp-standard@"+digest; ref != want {
		t.Errorf("got %q, want %q", ref, want)
	}
	if ref := p.Ref(Full()); ref != "" {
		t.Errorf("the full image that was not published is %q", ref)
	}
	if other, _ := Slim("python"); p.Ref(other) != "" {
		t.Errorf("an image that was not published is %q", p.Ref(other))
	}
}

// What a release has filled in, or nothing.
func TestTheTableIsRead(t *testing.T) {
	table := PublishedImages()
	if table.Registry == "" {
		t.Error("it names no registry")
	}
	for hash, digest := range table.Digests {
		if !regexp.MustCompile(`^[0-9a-f]{64}(-full)?$`).MatchString(hash) || !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
			t.Errorf("%s: %s", hash, digest)
		}
	}
}
