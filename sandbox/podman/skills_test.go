//go:build unix

package podman

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// skillsOfTest are the test's own, whose volume goes with it.
func skillsOfTest(t *testing.T, content string) *engine.Files {
	hash := "test" + strings.ToLower(rand.Text())
	t.Cleanup(func() {
		should.OK(t, testEngine.Remove(context.Background(), nil, []string{skillsVolume + hash}))
	})
	return &engine.Files{Hash: hash, Read: func() ([]containers.File, error) {
		return []containers.File{
			{Path: "a/SKILL.md", Mode: 0o644, Content: []byte(content)},
			{Path: "a/scripts/run.sh", Mode: 0o755, Content: []byte("#!/bin/sh\necho run by its path\n")},
		}, nil
	}}
}

const readSkill = `print(open("/mnt/skills/a/SKILL.md").read())`

func TestCodeCanReadAndRunSkillsAndNotChangeThem(t *testing.T) {
	files := skillsOfTest(t, "first")
	spec := python(t, `import os, subprocess
path = "/mnt/skills/a/"
def refused(what, *arguments):
    try: what(*arguments)
    except OSError as error: return error.strerror
    return "not refused"
print(refused(open, path + "new", "w"), refused(os.remove, path + "SKILL.md"), refused(os.chmod, path + "SKILL.md", 0o777), refused(os.rename, path, "/mnt/skills/b"), sep="; ")
print(subprocess.run([path + "scripts/run.sh"], capture_output=True, text=True).stdout.strip())
print([line.split()[3] for line in open("/proc/mounts") if " /mnt/skills " in line][0])
`+readSkill)
	spec.Skills = files
	lines := strings.Split(output(t, spec), "\n")
	const readOnly = "Read-only file system"
	want := []string{strings.Join([]string{readOnly, readOnly, readOnly, readOnly}, "; "), "run by its path"}
	if len(lines) != 5 || !slices.Equal(lines[:2], want) || lines[3] != "first" {
		t.Fatalf("it says %q", lines)
	}
	for _, option := range []string{"ro", "nosuid", "nodev"} {
		if !slices.Contains(strings.Split(lines[2], ","), option) {
			t.Errorf("the mount has %s, and not %s", lines[2], option)
		}
	}
}

// Somebody removes the volume between two containers, or spoils it before a server has seen it whole.
func TestAVolumeOfSkillsIsWholeInEachContainer(t *testing.T) {
	files := skillsOfTest(t, "text") // whose container goes before it
	spec := python(t, readSkill)
	spec.Skills = files
	name := skillsVolume + spec.Skills.Hash
	for what, spoil := range map[string]func() error{
		"nothing is": func() error { return nil },
		"it is gone": func() error { return testEngine.Remove(t.Context(), nil, []string{name}) },
	} {
		for range 2 {
			should.Equal(t, output(t, spec), "text\n", "%s: code reads", what)
			must.OK(t, testEngine.Remove(t.Context(), []string{spec.Name}, nil))
			must.OK(t, spoil())
		}
	}
	should.Equal(t, output(t, spec), "text\n", "code reads")
	must.OK(t, os.Remove(filepath.Join(mountpoint(t, name), "a", "SKILL.md")))
	must.OK(t, testEngine.Remove(t.Context(), []string{spec.Name}, nil))
	startOn(t, own(t, service.Options{}), spec)
	should.OK(t, should.ErrOf(os.Stat(filepath.Join(mountpoint(t, name), "a", "SKILL.md"))), "another server does not mend it")
}

// A container keeps the skills that it was made with; what no container has any more goes when others come.
func TestSkillsOfLiveContainersStay(t *testing.T) {
	files := []*engine.Files{skillsOfTest(t, "1"), skillsOfTest(t, "2"), skillsOfTest(t, "3")}
	live, ended, next := python(t, idle), python(t, readSkill), python(t, readSkill)
	live.Skills, ended.Skills, next.Skills = files[0], files[1], files[2]
	start(t, live)
	output(t, ended)
	must.OK(t, testEngine.Remove(t.Context(), []string{ended.Name}, nil))
	should.Equal(t, output(t, next), "3\n", "code reads")
	have := volumesOf(t)
	for _, c := range []struct {
		skills *engine.Files
		stays  bool
	}{{live.Skills, true}, {ended.Skills, false}, {next.Skills, true}} {
		should.Equal(t, slices.Contains(have, skillsVolume+c.skills.Hash), c.stays, "the volume of %s is there", c.skills.Hash)
	}
	must.OK(t, testEngine.Remove(t.Context(), []string{next.Name}, nil))
	must.OK(t, should.ErrOf(testEngine.RemoveOldVolumes(t.Context())))
	if have := volumesOf(t); slices.Contains(have, skillsVolume+next.Skills.Hash) || !slices.Contains(have, skillsVolume+live.Skills.Hash) {
		t.Errorf("gc left %q", have)
	}
}
