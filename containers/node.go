package containers

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// What programs begin with, and the folders that they lead to.
//
//go:embed node/flags.json node/boot.cjs node/join.cjs node/main.cjs node/files.cjs node/relay.cjs
//go:embed node/supervisor node/kernel node/watcher node/common
var nodeSources embed.FS

var nodeRequire = regexp.MustCompile(`require\('(\.[^']+)'\)`)

var (
	nodeFlags      = nodeArguments("flags.json")
	nodeSupervisor = nodeProgram("main.cjs")
	nodeFiles      = nodeProgram("files.cjs")
	nodeRelay      = nodeProgram("relay.cjs")
)

// NodeFlags are the arguments that make node run a program of ours given as the next one. V8 works in the
// thread that runs: where one of its others waits for memory while Node ends, which that thread would have
// to collect, Node never ends.
func NodeFlags() []string { return slices.Clone(nodeFlags) }

// NodeBoot is the source for `node -e` that becomes the program which stdin brings.
func NodeBoot() string { return nodeSource("boot.cjs") }

// NodeSupervisor is the source of process 1 of a JavaScript container, for [NodeBoot].
func NodeSupervisor() string { return nodeSupervisor }

// NodeFiles is the source for `node -e` of the program that moves files in and out of a container.
func NodeFiles() string { return nodeFiles }

// NodeRelay is the source for `node -e` that joins its stdio to the supervisor's socket.
func NodeRelay() string { return nodeRelay }

// nodeProgram joins a file and those that it leads to into one source, as node/join.cjs tells.
func nodeProgram(first string) string {
	var b strings.Builder
	b.WriteString("const parts = {\n")
	files := []string{first}
	for i := 0; i < len(files); i++ {
		source := nodeSource(files[i])
		fmt.Fprintf(&b, "%q(module, require) {%s\n},\n", files[i], source)
		for _, match := range nodeRequire.FindAllStringSubmatch(source, -1) {
			if file := path.Join(path.Dir(files[i]), match[1]); !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	b.WriteString("};\n" + nodeSource("join.cjs"))
	return b.String()
}

func nodeArguments(file string) (flags []string) {
	if err := json.Unmarshal([]byte(nodeSource(file)), &flags); err != nil {
		panic(err)
	}
	return flags
}

// nodeSource reads what is embedded, so it cannot fail but by a name that is missing in the lines above.
func nodeSource(name string) string {
	content, err := nodeSources.ReadFile("node/" + name)
	if err != nil {
		panic(err)
	}
	return string(content)
}
