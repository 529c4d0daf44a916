package containers

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// In this order: what programs begin with, what is the supervisor's, the kernel's and the watcher's, what is of several.
//
//go:embed node/boot.cjs node/join.cjs node/main.cjs node/files.cjs node/relay.cjs
//go:embed node/artifacts.cjs node/door.cjs node/kernelcommand.cjs node/kernelprocess.cjs node/links.cjs
//go:embed node/outcome.cjs node/output.cjs node/pipes.cjs node/processes.cjs node/quota.cjs node/record.cjs
//go:embed node/run.cjs node/screen.cjs node/settings.cjs node/supervisor.cjs node/unnamed.cjs
//go:embed node/builtins.cjs node/bytes.cjs node/cell.cjs node/display.cjs node/errors.cjs node/importer.cjs
//go:embed node/inspect.cjs node/kernel.cjs node/kerneloutput.cjs node/runcontext.cjs node/torn.cjs
//go:embed node/edits.cjs node/names.cjs node/parser.cjs node/redeclare.cjs node/translate.cjs node/typescript.cjs
//go:embed node/watcher.cjs
//go:embed node/ask.cjs node/frames.cjs node/gate.cjs node/socket.cjs node/source.cjs node/tally.cjs node/text.cjs
//go:embed node/values.cjs node/wire.cjs
var nodeSources embed.FS

var nodeRequire = regexp.MustCompile(`require\('\./([^']+)'\)`)

var (
	nodeSupervisor = nodeProgram("main.cjs")
	nodeFiles      = nodeProgram("files.cjs")
	nodeRelay      = nodeProgram("relay.cjs")
)

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
	names := []string{first}
	for i := 0; i < len(names); i++ {
		source := nodeSource(names[i])
		fmt.Fprintf(&b, "%q(module, require) {%s\n},\n", "./"+names[i], source)
		for _, match := range nodeRequire.FindAllStringSubmatch(source, -1) {
			if !slices.Contains(names, match[1]) {
				names = append(names, match[1])
			}
		}
	}
	b.WriteString("};\n" + nodeSource("join.cjs"))
	return b.String()
}

// nodeSource reads what is embedded, so it cannot fail but by a name that is missing in the lines above.
func nodeSource(name string) string {
	content, err := nodeSources.ReadFile("node/" + name)
	if err != nil {
		panic(err)
	}
	return string(content)
}
