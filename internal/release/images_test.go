package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestTheTableOfImagesIsFilled(t *testing.T) {
	root := t.TempDir()
	digests := make(map[string]string)
	var pairs []string
	for i, recipe := range containers.Recipes() {
		digests[recipe.String()] = "sha256:" + strings.Repeat(string("abcd"[i]), 64)
		pairs = append(pairs, recipe.String()+"="+digests[recipe.String()])
	}
	must.OK(t, fillTable(root, pairs))
	var table containers.Published
	readJSON(t, filepath.Join(root, "containers/published.json"), &table)
	for _, recipe := range containers.Recipes() {
		if ref := table.Ref(recipe); !strings.HasSuffix(ref, "/code-sandbox-mcp-"+recipe.Name+"@"+digests[recipe.String()]) || !strings.Contains(ref, ".") {
			t.Errorf("the image %s is %q", recipe, ref)
		}
	}
}

func TestATableWithMistakesIsNotWritten(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for want, pairs := range map[string][]string{
		"not an image's name and digest":         {"python=latest"},
		"no digest is given of the image node":   {"python=" + digest},
		`there is no image "ruby"`:               {"python=" + digest, "node=" + digest, "standard=" + digest, "standard-full=" + digest, "ruby=" + digest},
		"is given of the image standard-full":    {"python=" + digest, "node=" + digest, "standard=" + digest},
		"no digest is given of the image python": {"=" + digest},
	} {
		root := t.TempDir()
		should.Fail(t, fillTable(root, pairs), want, "%q", pairs)
		if written, _ := filepath.Glob(filepath.Join(root, "*")); len(written) > 0 {
			t.Errorf("%q: %q was written", pairs, written)
		}
	}
}
