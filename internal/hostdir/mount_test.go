//go:build unix

package hostdir_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestParseMount(t *testing.T) {
	for text, want := range map[string]hostdir.Mount{
		"/srv/data":          {Folder: "/srv/data", Name: "data"},
		"/srv/data/":         {Folder: "/srv/data/", Name: "data"},
		"/srv/data:Sets_1.0": {Folder: "/srv/data", Name: "Sets_1.0"},
		"/srv/a:b/c":         {Folder: "/srv/a:b/c", Name: "c"},
		"/srv/a:b:c":         {Folder: "/srv/a:b", Name: "c"},
		"~/data":             {Folder: "~/data", Name: "data"},
	} {
		should.Give(hostdir.ParseMount(text))(t, want, "%s", text)
	}
	for text, want := range map[string]string{
		"":               "empty",
		":name":          "empty",
		"/srv/data:":     `"" cannot be the name`,
		"/srv/data:..":   `".." cannot be the name`,
		"/srv/data:.ssh": "cannot be the name",
		"/srv/my data":   `"my data" cannot be the name`,
		"/srv/data:ro":   "write /srv/data:NAME",
		"/srv/data:undo": "write /srv/data:NAME",
		"/":              "cannot be the name",
		"/srv/a\nb:c":    "has a control character",
	} {
		got, err := hostdir.ParseMount(text)
		should.Hold(t, err != nil && strings.Contains(err.Error(), want), "%s: %+v, %v", text, got, err)
	}
}

func TestWhatIsNeverMounted(t *testing.T) {
	home, state, other := t.TempDir(), t.TempDir(), t.TempDir()
	for _, folder := range []string{home + "/.ssh", home + "/data", other + "/sub", other + "/with-socket"} {
		must.OK(t, os.MkdirAll(folder, 0o700))
	}
	socket := filepath.Join(other, "with-socket", "s")
	listener := must.Get(net.Listen("unix", socket))(t)
	defer func() { _ = listener.Close() }()
	must.OK(t, os.WriteFile(other+"/file", nil, 0o600))
	link := func(to string) string {
		path := filepath.Join(t.TempDir(), "link")
		must.OK(t, os.Symlink(to, path))
		return path
	}
	for name, test := range map[string]struct{ folder, want string }{
		"the whole system":      {"/", "whole file system"},
		"the settings":          {"/etc", "/etc is /etc or below it"},
		"below them":            {"/proc/self", "or below it"},
		"a link to them":        {link("/etc"), "/etc is /etc or below it"},
		"a link into them":      {link("/dev/shm"), "or below it"},
		"what holds programs":   {"/usr", "/usr holds /usr/"},
		"where services listen": {"/run", "or below it"},
		"the home folder":       {home, "is a home folder"},
		"all home folders":      {filepath.Dir(home), "is a home folder, or holds one"},
		"by its short name":     {"~", "is a home folder"},
		"where homes are":       {"/home", "is a home folder, or holds one"},
		"by another path":       {"/home/.", "is a home folder, or holds one"},
		"by a link":             {link("/home"), "is a home folder, or holds one"},
		"root's home":           {"/root", "is a home folder"},
		"keys":                  {"~/.ssh", "hidden folder of the home folder"},
		"the state":             {state, "or below it"},
		"what holds the state":  {filepath.Dir(state), "holds"},
		"a folder of sockets":   {other + "/with-socket", "holds s, a socket"},
		"a socket":              {socket, "is no folder"},
		"a device":              {"/dev/null", "is no folder"},
		"a file":                {other + "/file", "is no folder"},
		"nothing":               {other + "/none", "no such file"},
		"a relative path":       {"data", "write the whole path"},
	} {
		t.Run(name, func(t *testing.T) {
			withheld := []string{state}
			if strings.Contains(name, "home") {
				withheld = nil
			}
			got, err := hostdir.CheckMounts([]hostdir.Mount{{Folder: test.folder, Name: "n"}}, home, withheld)
			should.Hold(t, err != nil && strings.Contains(err.Error(), test.want) && len(got) == 0,
				"got %v, %v; want %q", got, err, test.want)
		})
	}
}

func TestWhatIsMounted(t *testing.T) {
	home := t.TempDir()
	for _, folder := range []string{"data", "data/inner", "more"} {
		must.OK(t, os.Mkdir(filepath.Join(home, folder), 0o700))
	}
	link := filepath.Join(t.TempDir(), "link")
	must.OK(t, os.Symlink(home+"/data", link))
	folder := func(path, name string, writable bool) hostdir.Mount {
		return hostdir.Mount{Folder: path, Name: name, Writable: writable}
	}
	real := must.Get(filepath.EvalSymlinks(home))(t)
	for name, test := range map[string]struct {
		mounts []hostdir.Mount
		want   string // of the error
	}{
		"below the home folder":    {[]hostdir.Mount{folder("~/data", "a", false)}, ""},
		"by a link":                {[]hostdir.Mount{folder(link, "a", false)}, ""},
		"one in the other":         {[]hostdir.Mount{folder("~/data", "a", false), folder("~/data/inner", "b", true)}, ""},
		"one in a writable one":    {[]hostdir.Mount{folder("~/data", "a", true), folder("~/data/inner", "b", false)}, "one inside the other"},
		"the outer one comes last": {[]hostdir.Mount{folder("~/data/inner", "a", false), folder("~/data", "b", true)}, "one inside the other"},
		"undone, and read-only":    {[]hostdir.Mount{{Folder: "~/data", Name: "a", Undo: true}}, "write ~/data:a,rw,undo"},
		"the same name":            {[]hostdir.Mount{folder("~/data", "a", false), folder("~/more", "a", false)}, "have the same name a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hostdir.CheckMounts(test.mounts, home, nil)
			should.Hold(t, test.want != "" || err == nil && len(got) == len(test.mounts) && got[0].Folder == real+"/data",
				"got %+v, %v", got, err)
			should.Hold(t, test.want == "" || err != nil && strings.Contains(err.Error(), test.want), "got %v, want %q", err, test.want)
		})
	}
}
