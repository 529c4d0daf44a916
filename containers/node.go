package containers

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed node/boot.cjs node/join.cjs node/supervisor.cjs node/ask.cjs node/frames.cjs node/door.cjs node/quota.cjs node/screen.cjs
//go:embed node/files.cjs node/tally.cjs node/torn.cjs node/unnamed.cjs node/relay.cjs node/socket.cjs
var nodeSources embed.FS

var (
	nodeSupervisor = nodeProgram("supervisor.cjs", "ask.cjs", "frames.cjs", "door.cjs", "socket.cjs", "quota.cjs", "screen.cjs", "tally.cjs", "torn.cjs", "unnamed.cjs")
	nodeFiles      = nodeProgram("files.cjs", "tally.cjs")
	nodeRelay      = nodeProgram("relay.cjs", "socket.cjs")
)

// NodeBoot is the source for `node -e` that becomes the program which stdin brings.
func NodeBoot() string { return nodeSource("boot.cjs") }

// NodeSupervisor is the source of process 1 of a JavaScript container, for [NodeBoot].
func NodeSupervisor() string { return nodeSupervisor }

// NodeFiles is the source for `node -e` of the program that moves files in and out of a container.
func NodeFiles() string { return nodeFiles }

// NodeRelay is the source for `node -e` that joins its stdio to the supervisor's socket.
func NodeRelay() string { return nodeRelay }

// nodeProgram joins files into one source, as node/join.cjs tells. The first is the program.
func nodeProgram(names ...string) string {
	var b strings.Builder
	b.WriteString("const parts = {\n")
	for _, name := range names {
		fmt.Fprintf(&b, "%q(module, require) {%s\n},\n", "./"+name, nodeSource(name))
	}
	b.WriteString("};\n" + nodeSource("join.cjs"))
	return b.String()
}

// nodeSource reads what is embedded, so it cannot fail but by a mistake in the lines above.
func nodeSource(name string) string {
	content, err := nodeSources.ReadFile("node/" + name)
	if err != nil {
		panic(err)
	}
	return string(content)
}
