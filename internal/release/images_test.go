package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
)

func TestTheTableOfImagesIsFilled(t *testing.T) {
	root := t.TempDir()
	python, node := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	full := "sha256:" + strings.Repeat("c", 64)
	if err := fillTable(root, []string{"node=" + node, "python=" + python, "node-full=" + full, "python-full=" + full}); err != nil {
		t.Fatal(err)
	}
	var table containers.Published
	readJSON(t, filepath.Join(root, "containers/published.json"), &table)
	for language, digest := range map[string]string{"python": python, "javascript": node} {
		recipe, _ := containers.RecipeFor(language)
		if ref := table.Ref(recipe); !strings.HasSuffix(ref, "/code-sandbox-mcp-"+recipe.Name+"@"+digest) || !strings.Contains(ref, ".") {
			t.Errorf("the image for %s is %q", language, ref)
		}
		if ref := table.Ref(recipe.WithCompiler()); !strings.HasSuffix(ref, "/code-sandbox-mcp-"+recipe.Name+"@"+full) {
			t.Errorf("the full image for %s is %q", language, ref)
		}
	}
}

func TestATableWithMistakesIsNotWritten(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for want, pairs := range map[string][]string{
		"not an image's name and digest":         {"python=latest"},
		"no digest is given of the image node":   {"python=" + digest, "python-full=" + digest},
		`there is no image "ruby"`:               {"python=" + digest, "python-full=" + digest, "node=" + digest, "node-full=" + digest, "ruby=" + digest},
		"is given of the image python-full":      {"python=" + digest, "node=" + digest, "node-full=" + digest},
		"no digest is given of the image python": {"=" + digest},
	} {
		root := t.TempDir()
		if err := fillTable(root, pairs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pairs, err)
		}
		if written, _ := filepath.Glob(filepath.Join(root, "*")); len(written) > 0 {
			t.Errorf("%q: %q was written", pairs, written)
		}
	}
}
