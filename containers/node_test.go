package containers

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

func nodeFileNames(t *testing.T) []string {
	t.Helper()
	paths, err := fs.Glob(nodeSources, "node/*")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestNodeProgramsHoldTheFilesThatTheyAreMadeOf(t *testing.T) {
	programs := map[string][]string{
		NodeBoot():       {"boot.cjs"},
		NodeSupervisor(): {"supervisor.cjs", "ask.cjs", "frames.cjs", "door.cjs", "socket.cjs", "quota.cjs", "screen.cjs", "tally.cjs", "torn.cjs", "unnamed.cjs", "join.cjs"},
		NodeFiles():      {"files.cjs", "tally.cjs"},
		NodeRelay():      {"relay.cjs", "socket.cjs"},
	}
	seen := 0
	for program, names := range programs {
		for _, name := range names {
			content, err := os.ReadFile("node/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if len(content) == 0 || !strings.Contains(program, string(content)) {
				t.Errorf("%s: what is embedded is not the file, or empty", name)
			}
			seen++
		}
	}
	if files := nodeFileNames(t); seen < len(files) {
		t.Errorf("of %v only %d are in a program", files, seen)
	}
}

// TestNodeProgramsFitIntoAnArgument is about those that are one: an argument of a process holds less
// than 131072 bytes (MAX_ARG_STRLEN), and no NUL.
func TestNodeProgramsFitIntoAnArgument(t *testing.T) {
	for name, source := range map[string]string{"boot": NodeBoot(), "files": NodeFiles(), "relay": NodeRelay()} {
		if strings.ContainsRune(source, 0) {
			t.Errorf("%s holds a NUL", name)
		}
		if len(source) >= 100<<10 {
			t.Errorf("%s is %d bytes", name, len(source))
		}
	}
}
