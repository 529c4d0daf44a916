//go:build unix

package skills

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// good is the SKILL.md of a skill.
func good(name string) string {
	return "---\nname: " + name + "\ndescription: Does something.\n---\n# Text\n"
}

// write makes a file, and the folders that it is in.
func write(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

func loader(folders ...string) *Loader {
	var list []Folder
	for _, folder := range folders {
		list = append(list, Folder{Name: filepath.Base(folder), Path: folder})
	}
	return New(list, "", slog.New(slog.DiscardHandler))
}

// why is what is said of each folder that is none.
func why(set *Set) map[string]string {
	said := make(map[string]string)
	for _, out := range set.LeftOut {
		said[out.Name] = out.Why
	}
	return said
}

func TestWhatKeepsToTheFormatIsASkill(t *testing.T) {
	for name, main := range map[string]string{
		"plain":        good("plain"),
		"a-1-b":        good("a-1-b"),
		"line-ends":    "---\r\nname: line-ends\r\ndescription: >-\r\n  Some\r\n  text.\r\n---\r\ntext\r\n",
		"mark":         "\ufeff" + good("mark"),
		"no-text":      "---\nname: no-text\ndescription: d\n---",
		"colon":        "---\nname: colon\ndescription: Makes reports: weekly ones, it's said: a's\nlicense: MIT: all of it\n---\n",
		"long":         "---\nname: long\ndescription: " + strings.Repeat("é", maxDescription) + "\n---\n",
		"other-fields": "---\nname: other-fields\ndescription: d\nlicense: MIT\nallowed-tools: [a, b]\nmetadata: {version: \"1\", 2: x}\n---\n",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name, Main), main)
		if set := loader(dir).Now(); !slices.Equal(set.Names(), []string{name}) || len(set.LeftOut) != 0 {
			t.Errorf("%s: %q, left out %v", name, set.Names(), set.LeftOut)
		}
	}
}

func TestWhatDoesNotIsLeftOutWithWhyAndTheOthersStay(t *testing.T) {
	link := func(to, from string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			must.OK(t, os.Symlink(to, filepath.Join(dir, from)))
		}
	}
	many := func(files, size int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for i := range files {
				write(t, filepath.Join(dir, "data", fmt.Sprint(i)), "")
				must.OK(t, os.Truncate(filepath.Join(dir, "data", fmt.Sprint(i)), int64(size)))
			}
		}
	}
	front := func(lines string) string { return "---\n" + lines + "\n---\n" }
	for _, c := range []struct {
		name, main string
		more       func(t *testing.T, dir string)
		why        string
	}{
		{name: "no-front", main: "# Text\n", why: "front matter"},
		{name: "no-end", main: "---\nname: no-end\ndescription: d\n", why: "front matter"},
		{name: "empty", why: "front matter"},
		{name: "no-yaml", main: front("a: [b"), why: "no good YAML"},
		{name: "colon", main: front("name: colon\ndescription: a: b\n  c: d"), why: "no good YAML"},
		{name: "a-list", main: front("- a"), why: "no good YAML"},
		{name: "nothing", main: front(""), why: "its name has to be"},
		{name: "twice", main: front("name: twice\nname: twice\ndescription: d"), why: "no good YAML"},
		{name: "bomb", main: front("name: bomb\ndescription: [d]\na: &a [x, x]\nb: [*a, *a]"), why: "no good YAML"},
		{name: "deep", main: front("name: deep\ndescription: d\na: " + strings.Repeat("[", 15_000) + strings.Repeat("]", 15_000)), why: "no good YAML"},
		{name: "large-front", main: front("name: large-front\ndescription: d\na: " + strings.Repeat("x", maxFrontMatter)), why: "larger than 32 KiB"},
		{name: "no-name", main: front("description: d"), why: "its name has to be"},
		{name: "UPPER", main: good("UPPER"), why: "its name has to be"},
		{name: "a--b", main: good("a--b"), why: "its name has to be"},
		{name: "-a", main: good("-a"), why: "its name has to be"},
		{name: strings.Repeat("a", 65), main: good(strings.Repeat("a", 65)), why: "its name has to be"},
		{name: "a number", main: front("name: 7\ndescription: d"), why: "its folder has to be called 7"},
		{name: "other", main: good("another"), why: "its folder has to be called another"},
		{name: "no-description", main: front("name: no-description"), why: "no description"},
		{name: "blank", main: front("name: blank\ndescription: '  '"), why: "no description"},
		{name: "long", main: front("name: long\ndescription: " + strings.Repeat("x", maxDescription+1)), why: "longer than 1024"},
		{name: "large", main: good("large") + strings.Repeat("x", maxMainBytes), why: "larger than 1 MB"},
		{name: "hidden", main: good("hidden"), more: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, ".git", "credentials"), "secret")
			link(".git/credentials", "notes.md")(t, dir)
		}, why: "is a link to a hidden file"},
		{name: "link-out", main: good("link-out"), more: link("/etc/passwd", "passwd"), why: `"passwd" is a link that leads out`},
		{name: "link-up", main: good("link-up"), more: link("../good/"+Main, "other.md"), why: "leads out"},
		{name: "link-broken", main: good("link-broken"), more: link("none", "a"), why: "leads out"},
		{name: "link-round", main: good("link-round"), more: link(".", "a"), why: "link to a folder"},
		{name: "fifo", main: good("fifo"), why: `"pipe" is no regular file`, more: func(t *testing.T, dir string) {
			must.OK(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
		}},
		{name: "deep-folders", main: good("deep-folders"), why: "more than 8 deep", more: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, strings.Repeat("d/", maxDepth+1), "f"), "")
		}},
		{name: "bad-path", main: good("bad-path"), why: "characters that no path should have", more: func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a\nb"), "")
		}},
		{name: "many-files", main: good("many-files"), more: many(maxSkillFiles, 0), why: "more than 512 files"},
		{name: "many-folders", main: good("many-folders"), why: "more than 512 files and folders", more: func(t *testing.T, dir string) {
			for i := range maxSkillFiles {
				write(t, filepath.Join(dir, fmt.Sprint(i%30), fmt.Sprint(i), ".hidden"), "")
			}
		}},
		{name: "many-bytes", main: good("many-bytes"), more: many(17, 1<<20), why: "larger than 16 MB"},
	} {
		t.Run(c.name[:min(len(c.name), 20)], func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "good", Main), good("good"))
			write(t, filepath.Join(dir, c.name, Main), c.main)
			if c.more != nil {
				c.more(t, filepath.Join(dir, c.name))
			}
			set := loader(dir).Now()
			if said := why(set)[called(c.name)]; !slices.Equal(set.Names(), []string{"good"}) || !strings.Contains(said, c.why) {
				t.Errorf("%q are skills; of this is said %q", set.Names(), said)
			}
		})
	}
}

// find returns a skill by its name; nil: there is none.
func find(s *Set, name string) *Skill {
	if i := slices.IndexFunc(s.Skills, func(k Skill) bool { return k.Name == name }); i >= 0 {
		return &s.Skills[i]
	}
	return nil
}

func TestWhatAFolderOfSkillsMayHave(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	elsewhere := t.TempDir()
	write(t, filepath.Join(dir, "good", Main), good("good"))
	write(t, filepath.Join(dir, "README.md"), "no folder")
	write(t, filepath.Join(dir, ".git", "config"), "hidden")
	write(t, filepath.Join(dir, "notes", "a.md"), "no skill")
	write(t, filepath.Join(other, "good", Main), good("good"))
	write(t, filepath.Join(other, "second", Main), good("second"))
	write(t, filepath.Join(elsewhere, "third", Main), good("third"))
	for from, to := range map[string]string{"linked": filepath.Join(other, "second"), "third": filepath.Join(elsewhere, "third"), "gone": filepath.Join(dir, "none")} {
		must.OK(t, os.Symlink(to, filepath.Join(dir, from)))
	}
	must.OK(t, os.Rename(filepath.Join(dir, "linked"), filepath.Join(dir, "second")))
	set := loader(dir, other, filepath.Join(dir, "absent"), filepath.Join(elsewhere, "third")).Now()
	should.EqualSlice(t, set.Names(), []string{"good", "second", "third"}, "skills")
	want := map[string]string{
		"notes":  "it has no SKILL.md",
		"gone":   "it cannot be read",
		"third":  "it is a link to a folder that is in none of those with skills",
		"good":   "a skill of that name is in a folder that was named before",
		"absent": "there is no such folder",
	}
	got := why(set)
	should.Hold(t, reflect.DeepEqual(got, want), "left out are %q", got)
}

// What a project brings leads nowhere else, and tells nothing of what is there: also where the user's own folders have it.
func TestNoLinkLeadsOutOfAProject(t *testing.T) {
	home, project, real := t.TempDir(), filepath.Join(t.TempDir(), "linked"), t.TempDir()
	own := filepath.Join(home, ".agents", "skills")
	write(t, filepath.Join(own, "own", Main), good("own"))
	write(t, filepath.Join(real, "parts", "inside", Main), good("inside"))
	write(t, filepath.Join(real, "tools", "elsewhere", Main), good("elsewhere"))
	for from, to := range map[string]string{
		project:                         real,
		real + "/out":                   own,
		real + "/one":                   filepath.Join(own, "own"),
		real + "/up":                    "..",
		real + "/broken":                filepath.Join(home, "none"),
		real + "/skills":                "parts",
		real + "/parts/own":             filepath.Join(own, "own"),
		real + "/parts/file":            filepath.Join(own, "own", Main),
		real + "/parts/none":            filepath.Join(home, "none"),
		real + "/parts/elsewhere":       "../tools/elsewhere",
		real + "/parts/inside-too":      "inside",
		real + "/tools/elsewhere/a.txt": filepath.Join(own, "own", Main),
	} {
		must.OK(t, os.Symlink(to, from))
	}
	away := "it is a link that leads out of the project, or cannot be read"
	for folder, want := range map[string]map[string]string{
		"out": {"out": away}, "one": {"one": away}, "up": {"up": away}, "none": {}, "broken": {"broken": away}, "out/own": {"out/own": away},
		"skills": {
			"own": away, "file": away, "none": away,
			"elsewhere":  "it is a link to a folder that is in none of those with skills",
			"inside-too": "its folder has to be called inside, as the name in its SKILL.md",
		},
		"tools": {"elsewhere": `"a.txt" is a link that leads out of the skill, or cannot be read`},
	} {
		set := New([]Folder{{Name: folder, Path: filepath.Join(project, folder), Project: project}}, home, slog.New(slog.DiscardHandler)).Now()
		if got := why(set); !reflect.DeepEqual(got, want) || find(set, "own") != nil || (find(set, "inside") != nil) != (folder == "skills") {
			t.Errorf("%s: %q, left out %q", folder, set.Names(), got)
		}
	}
}

// A folder that becomes a link after it was looked at is not followed.
func TestAProjectThatChangesMeanwhileIsNotLeft(t *testing.T) {
	project, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(project, "skills", "a", Main), good("a"))
	write(t, filepath.Join(other, Main), good("a"))
	set := New([]Folder{{Path: filepath.Join(project, "skills"), Project: project}}, "", slog.New(slog.DiscardHandler)).Now()
	should.OK(t, should.ErrOf(set.Bring().Read()))
	must.OK(t, errors.Join(os.RemoveAll(filepath.Join(project, "skills", "a")), os.Symlink(other, filepath.Join(project, "skills", "a"))))
	should.Fail(t, should.ErrOf(set.Bring().Read()), "have just changed", "a folder elsewhere was read")
}

func TestAllSkillsTogetherAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		name := fmt.Sprintf("skill-%d", i)
		write(t, filepath.Join(dir, name, Main), good(name))
		write(t, filepath.Join(dir, name, "data"), "")
		must.OK(t, os.Truncate(filepath.Join(dir, name, "data"), 15<<20))
	}
	set := loader(dir).Now()
	if len(set.Skills) != 3 || !strings.Contains(why(set)["skill-3"], "50 MB") {
		t.Errorf("%q are skills, left out %v", set.Names(), set.LeftOut)
	}
	// After that none is looked at, nor after very many files and folders of what is none.
	write(t, filepath.Join(dir, "skill-4", Main), good("skill-4"))
	if set = loader(dir).Now(); !strings.Contains(why(set)["skill-4"], "50 MB") {
		t.Errorf("%q are skills, left out %v", set.Names(), set.LeftOut)
	}
	other := t.TempDir()
	write(t, filepath.Join(other, "bad", Main), "")
	for i := range maxSkillFiles {
		write(t, filepath.Join(other, "bad", fmt.Sprint(i)), "")
	}
	dir = t.TempDir()
	for i := range maxLooked/maxSkillFiles + 3 {
		must.OK(t, os.Symlink(filepath.Join(other, "bad"), filepath.Join(dir, fmt.Sprintf("bad-%02d", i))))
	}
	if said := why(loader(dir, other).Now()); said["bad-00"] != "it has more than 512 files and folders" || !strings.Contains(said["bad-21"], "with it, all skills") {
		t.Errorf("left out are %q", said)
	}
}

func TestCodeGetsEveryFile(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", Main), "---\nname: a\ndescription: d\ndate: 2026-01-02\nn: 7\nlimit: .inf\nnone:\nok: true\n---\n")
	write(t, filepath.Join(dir, "a", "scripts", "run.sh"), "#!/bin/sh\n")
	write(t, filepath.Join(dir, "a", ".env"), "KEY=secret")
	write(t, filepath.Join(dir, "a", "scripts", "__pycache__", "x.pyc"), "x")
	must.OK(t, os.Chmod(filepath.Join(dir, "a", "scripts", "run.sh"), 0o700))
	must.OK(t, os.Symlink("run.sh", filepath.Join(dir, "a", "scripts", "go")))
	set := loader(dir).Now()
	files := must.Get(set.Bring().Read())(t)
	var got []string
	for _, f := range files {
		got = append(got, fmt.Sprintf("%s %o %d", f.Path, f.Mode, len(f.Content)))
	}
	should.EqualSlice(t, got, []string{"a/SKILL.md 644 80", "a/scripts/go 755 10", "a/scripts/run.sh 755 10"}, "files")
}

func TestWhatChangesIsSeenAtTheNextLook(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "a", Main)
	write(t, main, good("a"))
	l, log := loader(dir), &locked.Buffer{}
	l.log = slog.New(slog.NewTextHandler(log, nil))
	should.EqualSlice(t, l.AtStart(), []string{"a"}, "at the start")
	first := l.Now()
	should.Hold(t, l.Now() == first, "the same folder was another set")
	hashes, before := map[string]bool{first.Bring().Key(): true}, first
	for _, change := range []func(){
		func() { write(t, main, good("a")+"more\n") },
		func() { write(t, filepath.Join(dir, "a", "new.txt"), "") },
		func() { write(t, filepath.Join(dir, "b", Main), good("b")) },
		func() { os.Chmod(filepath.Join(dir, "a", "new.txt"), 0o755) },
	} {
		change()
		now := l.Now()
		should.Hold(t, !hashes[now.Bring().Key()], "a change made the same content")
		hashes[now.Bring().Key()] = true
	}
	write(t, main, good("a")+"more and more\n")
	should.Fail(t, should.ErrOf(before.Bring().Read()), "have just changed", "a file that grew meanwhile was brought")
	write(t, filepath.Join(dir, "bad", Main), "")
	l.Now()
	l.Now()
	n := strings.Count(log.String(), "skill left out")
	should.Hold(t, n == 1, "the log says so %d times: %s", n, log.String())
	os.RemoveAll(dir)
	should.Equal(t, l.Now().Bring(), nil, "nothing is brought as something")
}
