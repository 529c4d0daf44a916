package containers

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestNodeProgramsHoldTheFilesThatTheyAreMadeOf(t *testing.T) {
	programs := []string{NodeBoot(), NodeSupervisor(), NodeFiles(), NodeRelay()}
	err := fs.WalkDir(nodeSources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "flags.json" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		isPart := func(program string) bool { return strings.Contains(program, string(content)) }
		if len(content) == 0 || !slices.ContainsFunc(programs, isPart) {
			t.Errorf("%s: what is embedded is not the file, or empty, or no program leads to it", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
