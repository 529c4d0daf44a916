package containers

import (
	_ "embed"
	"encoding/json"
	"strings"
)

//go:embed published.json
var publishedTable []byte

// Published says where a release published images of recipes.
type Published struct {
	Registry string            `json:"registry"` // the host, and the path above the images
	Digests  map[string]string `json:"digests"`  // of an image for every kind of processor, by Recipe.Hash
}

// PublishedImages returns the images that a release filled in. Before the first release, and in a program built otherwise, there are none.
func PublishedImages() Published {
	var p Published
	if err := json.Unmarshal(publishedTable, &p); err != nil {
		panic(err) // it is embedded, and a test reads it
	}
	return p
}

// Ref names the image of a recipe by its digest, so no registry can hand out another; empty: none was published.
func (p Published) Ref(r Recipe) string {
	digest := p.Digests[r.Hash]
	if digest == "" {
		return ""
	}
	return p.Registry + "/" + r.repository() + "@" + digest
}

// Pull names the image of a recipe for an engine that pulls by itself: by its digest if it is known, else by the tag that a release gives
// it, which depends on the recipe.
func (p Published) Pull(r Recipe) string {
	if ref := p.Ref(r); ref != "" {
		return ref
	}
	return p.Tagged(r)
}

// Tagged names the image of a recipe by the tag that a release gives it.
func (p Published) Tagged(r Recipe) string {
	_, tag, _ := strings.Cut(r.Ref(), ":")
	return p.Registry + "/" + r.repository() + ":" + tag
}
