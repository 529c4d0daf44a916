// Package containers holds the programs inside the sandbox, and the recipes of the images, all embedded in the binary.
//
// [Programs] are the supervisor, which is process 1 of every container, and the kernels, which an interpreter runs; an engine hands them to
// a container by a volume, so any image will do. A recipe is the context of an image build; [Recipes] lists them and [ImageRef] names the
// image of a language. The package imports nothing of this module.
package containers

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Labels of an image built from a recipe.
const (
	LabelRecipe   = "code-sandbox-mcp.recipe"   // Recipe.Hash; of an image whose last part is not built yet, Recipe.Begun
	LabelVersions = "code-sandbox-mcp.versions" // JSON: Versions, or a list of them
)

// MaxVersions bounds the text of LabelVersions, in bytes. An image supplies it, and an answer leaves room for two, even if JSON makes six
// bytes of one.
const MaxVersions = 64 << 10

// Versions lists an image's contents for one language.
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

// ParseVersions reads the text of LabelVersions, which anybody may have written; nil if it is malformed.
func ParseVersions(label string) (list []Versions) {
	if len(label) > MaxVersions {
		return nil
	}
	var one Versions
	if json.Unmarshal([]byte(label), &one) == nil {
		return []Versions{one}
	}
	if json.Unmarshal([]byte(label), &list) != nil {
		return nil
	}
	return list
}

// Without describes the packages that an image lacks by its label, in a line with the reason; empty: none is missing.
func Without(label string) string {
	for _, v := range ParseVersions(label) {
		if line := v.without(); line != "" {
			return line
		}
	}
	return ""
}

func (v Versions) without() string {
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

// HostEnvFile is the file of a recipe with a build's way to its package sources: shell text, empty but for comments, for the builder to
// replace. Single steps of the build mount it and the builder's files beside it at HostDir; no layer contains them.
const (
	HostEnvFile = "host/env"
	HostDir     = "/run/host"
)

//go:embed image/hosts image/host/env
//go:embed image/python/Containerfile* image/python/install.sh image/python/prepare.py image/python/pyproject.toml image/python/requirements.lock image/python/smoke.py
//go:embed image/node/Containerfile* image/node/canvas.cjs image/node/install.sh image/node/npm image/node/package.json image/node/package-lock.json image/node/smoke.cjs image/node/versions.cjs
//go:embed image/standard
var recipeFiles embed.FS

// Recipe is the recipe of an image.
type Recipe struct {
	Name  string // "python", "node" or "standard"
	Files fs.FS  // the build context
	// Parts are the texts of Containerfiles, each of which builds on the image of the one before. Sessions can use the first one's.
	Parts []string
	// Below are the recipes of the images that it is built on, by the names of the build's arguments; empty: Debian's as BASE.
	Below map[string]Recipe
	Hash  string // hex SHA-256 over the parts, and the names and contents of what they may copy; of a full image with its suffix
}

// fullSuffix distinguishes the full image of a recipe from the standard one.
const fullSuffix = "-full"

// Begun is LabelRecipe of the recipe's image while its last part is missing.
func (r Recipe) Begun() string { return r.Hash + "-begun" }

// IsFull reports whether the image has compilers.
func (r Recipe) IsFull() bool { return strings.HasSuffix(r.Hash, fullSuffix) }

// String is the image's name for people: "python", "node", "standard" or "standard-full".
func (r Recipe) String() string {
	if r.IsFull() {
		return r.Name + fullSuffix
	}
	return r.Name
}

// Ref names the recipe's image. Another recipe gives another name, so an image of an older binary is never taken for this one's.
func (r Recipe) Ref() string {
	ref := "localhost/" + r.repository() + ":" + r.Hash[:12]
	if r.IsFull() {
		ref += fullSuffix
	}
	return ref
}

// repository is the name of the recipe's images in every registry.
func (r Recipe) repository() string { return "code-sandbox-mcp-" + r.Name }

var (
	python   = load("python", []string{"python/Containerfile", "python/Containerfile.alone"})
	node     = load("node", []string{"node/Containerfile", "node/Containerfile.env"})
	standard = load("standard",
		[]string{"standard/Containerfile.programs", "python/Containerfile", "node/Containerfile.env", "standard/Containerfile"},
		[]string{"standard/Containerfile.browser"})
	full = Recipe{
		Name: standard.Name, Files: standard.Files, Parts: []string{text("standard/Containerfile.full")}, Below: map[string]Recipe{"BASE": standard}, Hash: standard.Hash + fullSuffix,
	}
	slim = map[string]Recipe{"python": python, "bash": python, "javascript": node}
)

// Recipes lists all recipes; each stands behind those that it is built on. The slice is the caller's.
func Recipes() []Recipe { return []Recipe{python, node, standard, full} }

// Standard returns the recipe of the image that has all languages.
func Standard() Recipe { return standard }

// Full returns the recipe of the standard image with compilers and large programs.
func Full() Recipe { return full }

// Slim returns the recipe of the smallest image with a language ("python", "javascript" or "bash"), and whether there is one.
func Slim(language string) (Recipe, bool) {
	r, ok := slim[language]
	return r, ok
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
	recipes := Recipes()
	if i := slices.IndexFunc(recipes, is); i >= 0 {
		return recipes[i], true
	}
	return Recipe{}, false
}

// ImageRef names this binary's image for a language ("python", "javascript" or "bash") if no setting names another; empty for an unknown
// language.
func ImageRef(language string) string {
	if _, ok := slim[language]; !ok {
		return ""
	}
	return standard.Ref()
}

var contexts, _ = fs.Sub(recipeFiles, "image")

// text reads an embedded file, so only a mistake in the lines above can make it fail.
func text(name string) string {
	content, err := fs.ReadFile(contexts, name)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// load makes a recipe of parts, each of which is made of files.
func load(name string, parts ...[]string) Recipe {
	r := Recipe{Name: name, Files: contexts}
	folders := []string{"host", "hosts"}
	for _, files := range parts {
		var part strings.Builder
		for _, file := range files {
			part.WriteString(text(file))
			folders = append(folders, path.Dir(file))
		}
		r.Parts = append(r.Parts, part.String())
	}
	var err error
	if r.Hash, err = hashFiles(r.Files, folders); err != nil {
		panic(err)
	}
	return r
}

// hashFiles ignores modes, times and the order of folders. The length before each part keeps two different sets of files from reading the
// same.
func hashFiles(files fs.FS, folders []string) (string, error) {
	sum := sha256.New()
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		err := fs.WalkDir(files, folder, func(path string, entry fs.DirEntry, err error) error {
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
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
