package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
)

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// fillTable writes the table that programs built afterwards find the published images by: of each recipe's image the
// digest, as NAME=DIGEST.
func fillTable(root string, pairs []string) error {
	table := containers.Published{Registry: containers.PublishedImages().Registry, Digests: make(map[string]string)}
	given := make(map[string]string)
	for _, pair := range pairs {
		name, digest, _ := strings.Cut(pair, "=")
		if !digestForm.MatchString(digest) {
			return fmt.Errorf("%q is not an image's name and digest, such as python=sha256:0123…", pair)
		}
		given[name] = digest
	}
	for _, recipe := range containers.Recipes() {
		digest, ok := given[recipe.String()]
		if !ok {
			return fmt.Errorf("no digest is given of the image %s", recipe)
		}
		delete(given, recipe.String())
		table.Digests[recipe.Hash] = digest
	}
	for name := range given {
		return fmt.Errorf("there is no image %q", name)
	}
	text, err := json.MarshalIndent(table, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(root, "containers", "published.json"), append(text, '\n'), 0o644)
}
