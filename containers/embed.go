// Package containers holds the programs inside the sandbox, and the recipe of each language's image, all embedded in the binary.
//
// [Programs] are the supervisor, which is process 1 of every container, and the kernels, which an interpreter runs; an engine hands them to
// a container by a volume, so any image will do. A recipe is the context of an image build; [Recipes] lists them and [ImageRef] names the
// image that this binary's recipe makes. The package imports nothing of this module.
package containers

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"
)

// Labels of an image built from a recipe.
const (
	LabelLanguage = "code-sandbox-mcp.language" // "python" or "javascript"
	LabelRecipe   = "code-sandbox-mcp.recipe"   // Recipe.Hash
	LabelVersions = "code-sandbox-mcp.versions" // JSON: Versions
)

// MaxVersions bounds the text of LabelVersions, in bytes. An image supplies it, and an answer leaves room for two, even if JSON makes six
// bytes of one.
const MaxVersions = 64 << 10

// Versions lists the contents of an image.
type Versions struct {
	Language string `json:"language"`
	Version  string `json:"version"`
	Packages []struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"packages"`
	// Missing are the packages that no index could supply to the build of the image, and Why is the installer's reason.
	Missing []string `json:"missing"`
	Why     string   `json:"why"`
}

// ParseVersions reads the text of LabelVersions, which anybody may have written, and reports whether it is well-formed.
func ParseVersions(label string) (v Versions, ok bool) {
	ok = len(label) <= MaxVersions && json.Unmarshal([]byte(label), &v) == nil
	return v, ok
}

// Without describes the missing packages of the image in a line, with the reason; empty: none is missing.
func (v Versions) Without() string {
	if len(v.Missing) == 0 {
		return ""
	}
	line := fmt.Sprintf("without %s, because PyPI's packages could not be installed: %s", strings.Join(v.Missing, ", "), v.Why)
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}

// VersionsFile is the file with the text of LabelVersions, in an image built from a recipe.
const VersionsFile = "/usr/local/share/code-sandbox/versions.json"

// FullContainerfile is the file of a recipe that builds its full image on its standard one.
const FullContainerfile = "Containerfile.full"

// HostEnvFile is the file of a recipe with a build's way to its package sources: shell text, empty but for comments, for the builder to
// replace. Single steps of the build mount it and the builder's files beside it at HostDir; no layer contains them.
const (
	HostEnvFile = "host/env"
	HostDir     = "/run/host"
)

//go:embed image/python/Containerfile image/python/Containerfile.full image/python/hosts image/python/host/env image/python/install.sh image/python/prepare.py image/python/pyproject.toml image/python/requirements.lock image/python/smoke.py
//go:embed image/node/Containerfile image/node/Containerfile.full image/node/hosts image/node/host/env image/node/canvas.cjs image/node/npm image/node/package.json image/node/package-lock.json image/node/smoke.cjs image/node/versions.cjs
var recipeFiles embed.FS

// Recipe is the recipe of one language's image.
type Recipe struct {
	Language string // "python" or "javascript"
	Name     string // the folder's name: "python" or "node"
	Files    fs.FS  // the build context; Containerfile is at its root
	Hash     string // hex SHA-256 over the names and contents of Files; of a full image with its suffix
	Full     bool   // the image with a compiler: FullContainerfile builds it on the standard one
}

// fullSuffix distinguishes the full image of a recipe from the standard one.
const fullSuffix = "-full"

// WithCompiler returns the recipe of the full image.
func (r Recipe) WithCompiler() Recipe {
	r.Full, r.Hash = true, r.Hash+fullSuffix
	return r
}

// Images returns the recipes of both images, the standard one first.
func (r Recipe) Images() []Recipe { return []Recipe{r, r.WithCompiler()} }

// Standard returns the recipe of the image below the full one.
func (r Recipe) Standard() Recipe {
	r.Full, r.Hash = false, strings.TrimSuffix(r.Hash, fullSuffix)
	return r
}

// Ref names the recipe's image. Another recipe gives another name, so an image of an older binary is never taken for this one's.
func (r Recipe) Ref() string {
	ref := "localhost/" + r.repository() + ":" + r.Hash[:12]
	if r.Full {
		ref += fullSuffix
	}
	return ref
}

// repository is the name of the recipe's images in every registry.
func (r Recipe) repository() string { return "code-sandbox-mcp-" + r.Name }

var recipes = []Recipe{load("python", "python"), load("javascript", "node")}

// Recipes lists the recipe of every language, Python first. The slice is the caller's.
func Recipes() []Recipe { return slices.Clone(recipes) }

// shared names, for a language without an image of its own, the language whose image contains its interpreter.
var shared = map[string]string{"bash": "python"}

// RecipeFor returns the recipe of a language, and whether there is one. Languages may share a recipe.
func RecipeFor(language string) (Recipe, bool) {
	for _, r := range recipes {
		if r.Language == language || r.Language == shared[language] {
			r.Language = language
			return r, true
		}
	}
	return Recipe{}, false
}

// RecipeOf returns the recipe that names an image, and whether there is one.
func RecipeOf(ref string) (Recipe, bool) {
	return recipeWhere(func(r Recipe) bool { return r.Ref() == ref })
}

// IsPublished reports whether a release publishes the image.
func IsPublished(ref string) bool {
	published := PublishedImages()
	_, is := recipeWhere(func(r Recipe) bool { return published.Pull(r) == ref })
	return is
}

func recipeWhere(is func(Recipe) bool) (Recipe, bool) {
	for _, r := range recipes {
		for _, r := range r.Images() {
			if is(r) {
				return r, true
			}
		}
	}
	return Recipe{}, false
}

// ImageRef names this binary's image for a language ("python", "javascript" or "bash") if no setting names another; empty for an unknown
// language.
func ImageRef(language string) string {
	r, ok := RecipeFor(language)
	if !ok {
		return ""
	}
	return r.Ref()
}

// load reads embedded files, so only a mistake in the lines above can make it fail.
func load(language, name string) Recipe {
	files, err := fs.Sub(recipeFiles, "image/"+name)
	if err != nil {
		panic(err)
	}
	hash, err := hashFiles(files)
	if err != nil {
		panic(err)
	}
	return Recipe{Language: language, Name: name, Files: files, Hash: hash}
}

// hashFiles ignores modes, times and the order of a directory. The length before each part keeps two different sets of files from reading
// the same.
func hashFiles(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%d %s %d ", len(path), path, len(content))
		_, err = sum.Write(content)
		return err
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
