// Package containers holds what runs inside the sandbox: the supervisor of each
// language, and the recipe of each language's image, all embedded in the binary.
//
// A supervisor is source text, so it runs in any image: a boot, short enough to be passed
// to the interpreter as an argument, reads it from stdin. The programs that a server
// starts beside it, for files and for a take-over, are arguments too. A recipe is the context of an image build; [Recipes] lists them and
// [ImageRef] names the image that this binary's recipe makes. The package imports
// nothing of this module.
package containers

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Labels on an image that was built from a recipe.
const (
	LabelLanguage = "code-sandbox-mcp.language" // "python" or "javascript"
	LabelRecipe   = "code-sandbox-mcp.recipe"   // Recipe.Hash
	LabelInit     = "code-sandbox-mcp.init"     // path of the interpreter for process 1
	LabelVersions = "code-sandbox-mcp.versions" // JSON: language, version, packages [{name, version}]
)

// VersionsFile is where an image that was built from a recipe keeps the text of
// LabelVersions.
const VersionsFile = "/usr/local/share/code-sandbox/versions.json"

// HostEnvFile is the file of a recipe that says how a build reaches its package
// sources: shell text, empty but for comments, for the builder to replace. It and what
// the builder puts beside it are mounted for single steps of the build at HostDir, and
// get into no layer.
const (
	HostEnvFile = "host/env"
	HostDir     = "/run/host"
)

//go:embed python/boot.py
var pythonBoot string

//go:embed python/supervisor.py
var pythonSupervisor string

//go:embed python/frames.py
var pythonFrames string

//go:embed python/takeover.py
var pythonTakeover string

//go:embed python/tree.py
var pythonTree string

//go:embed python/volume.py
var pythonVolume string

//go:embed python/files.py
var pythonFiles string

//go:embed python/relay.py
var pythonRelay string

//go:embed node/supervisor.cjs
var nodeSupervisor string

//go:embed python/Containerfile python/hosts python/host/env python/prepare.py python/smoke.py
//go:embed node/Containerfile node/hosts node/host/env node/package.json node/package-lock.json node/smoke.cjs node/versions.cjs
var recipeFiles embed.FS

// PythonBoot is what process 1 of a Python container starts as, for `python3 -c`: it reads
// PythonSupervisor from stdin, behind a 4-byte big-endian length, and becomes it.
func PythonBoot() string { return pythonBoot }

// PythonSupervisor is the source of process 1 of a Python container, for PythonBoot.
func PythonSupervisor() string {
	return bundlePython(pythonSupervisor, pythonModule{"tree", pythonTree}, pythonModule{"frames", pythonFrames},
		pythonModule{"takeover", pythonTakeover}, pythonModule{"volume", pythonVolume})
}

// PythonFiles is the source of the program that brings files into a container with Python
// and out of it, for `python3 -I -c`.
func PythonFiles() string { return bundlePython(pythonFiles, pythonModule{"tree", pythonTree}) }

// PythonRelay is the source of the program that joins its stdio to the supervisor's socket,
// for `python3 -I -c`.
func PythonRelay() string { return pythonRelay }

// NodeSupervisor is the source of process 1 of a JavaScript container, for `node -e`.
func NodeSupervisor() string { return nodeSupervisor }

type pythonModule struct{ name, source string }

// bundlePython makes one text of a program and the modules of ours that it imports, each
// before those that import it. They stand before the program's first line, on that line, so
// that the numbers of its lines stay. What Quote escapes is the same in Python.
func bundlePython(program string, modules ...pythonModule) string {
	var text strings.Builder
	for _, m := range modules {
		fmt.Fprintf(&text, `import sys; sys.modules[%[1]q] = type(sys)(%[1]q); `+
			`exec(compile(%[2]s, "<%[1]s>", "exec"), sys.modules[%[1]q].__dict__); `, m.name, strconv.Quote(m.source))
	}
	text.WriteString(program)
	return text.String()
}

// Recipe is how the image of one language is built.
type Recipe struct {
	Language string // "python" or "javascript"
	Name     string // the folder's name: "python" or "node"
	Files    fs.FS  // the build context; Containerfile is at its root
	Hash     string // hex SHA-256 over the names and contents of Files
}

// Ref names the image that the recipe makes. Another recipe has another name, so an
// image of an older binary is never taken for this one's.
func (r Recipe) Ref() string {
	return fmt.Sprintf("localhost/code-sandbox-mcp-%s:%s", r.Name, r.Hash[:12])
}

var recipes = []Recipe{load("python", "python"), load("javascript", "node")}

// Recipes lists the recipe of every language, Python first. The slice is the caller's.
func Recipes() []Recipe { return slices.Clone(recipes) }

// RecipeFor returns the recipe of a language, and whether there is one.
func RecipeFor(language string) (Recipe, bool) {
	for _, r := range recipes {
		if r.Language == language {
			return r, true
		}
	}
	return Recipe{}, false
}

// ImageRef names the image that this binary uses for a language ("python" or
// "javascript") when no setting names another; empty for an unknown language.
func ImageRef(language string) string {
	r, ok := RecipeFor(language)
	if !ok {
		return ""
	}
	return r.Ref()
}

// load reads what is embedded, so it cannot fail but by a mistake in the lines above.
func load(language, name string) Recipe {
	files, err := fs.Sub(recipeFiles, name)
	if err != nil {
		panic(err)
	}
	hash, err := hashFiles(files)
	if err != nil {
		panic(err)
	}
	return Recipe{Language: language, Name: name, Files: files, Hash: hash}
}

// hashFiles does not depend on modes, times or the order of a directory. The length
// before each part keeps two different sets of files from reading the same.
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
