package setting

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// mountList is a flag's list of folders, HOSTDIR[:NAME], each followed by ",rw" if code may write there, and ",undo" if that can be undone.
type mountList []hostdir.Mount

// Set adds the folders in a text. Words and folders share the comma as separator, so that the configuration file or a variable may have a
// list of both; no folder is called rw, because folders begin with / or ~.
func (l *mountList) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		if part == "rw" || part == "ro" || part == "undo" {
			if len(*l) == 0 {
				return fmt.Errorf("%q stands behind no folder", part)
			}
			last := &(*l)[len(*l)-1]
			last.Undo = last.Undo || part == "undo"
			last.Writable = part == "rw" || part == "undo" && last.Writable
			continue
		}
		m, err := hostdir.ParseMount(part)
		if err != nil {
			return err
		}
		*l = append(*l, m)
	}
	return nil
}

// Append, Replace and GetSlice are pflag.SliceValue.
func (l *mountList) Append(text string) error { return l.Set(text) }

// Replace begins the list anew.
func (l *mountList) Replace(texts []string) error {
	*l = nil
	return l.Set(strings.Join(texts, ","))
}

// GetSlice returns a text for each folder.
func (l *mountList) GetSlice() []string {
	var texts []string
	for _, m := range *l {
		text := m.Folder + ":" + m.Name
		if m.Writable {
			text += ",rw"
		}
		if m.Undo {
			text += ",undo"
		}
		texts = append(texts, text)
	}
	return texts
}

func (l *mountList) String() string { return strings.Join(l.GetSlice(), ",") }

// Type names the value in a flag's help.
func (l *mountList) Type() string { return "folders" }

// EngineMounts returns the folders as engine mounts, or the reason why one is refused. remote: the engine makes containers on other machines.
func EngineMounts(s *Settings, remote bool) ([]engine.Mount, error) {
	return s.engineMounts(s.Mounts, remote)
}

// ProjectMount returns the mount of a folder that a client works in.
func ProjectMount(s *Settings, folder string, remote bool) ([]engine.Mount, error) {
	project := hostdir.Mount{Folder: folder, Name: "project", Writable: s.Project != "ro", Undo: s.Project == "rw,undo"}
	return s.engineMounts(append(s.Mounts[:len(s.Mounts):len(s.Mounts)], project), remote)
}

func (s *Settings) engineMounts(mounts mountList, remote bool) ([]engine.Mount, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	if remote {
		return nil, fmt.Errorf("the machines of --engine %s do not have this machine's folders; upload files, or allow a folder with --allow-host-dir", s.EngineName)
	}
	if runtime.GOOS != "linux" {
		return nil, errors.New("containers run in a virtual machine here, which does not have this machine's folders; upload files, or allow a folder with --allow-host-dir")
	}
	withheld := []string{StateFolder(s.StateDir)}
	for _, address := range []string{s.EngineURL, s.DockerHost} {
		u, err := url.Parse(address)
		switch {
		case err == nil && u.Scheme == "unix":
			withheld = append(withheld, filepath.Dir(u.Path))
		case address != "" && address == s.EngineURL:
			return nil, errors.New("the Podman that --engine-url or CONTAINER_HOST names is on another machine, which does not have this one's folders; upload files, or allow a folder with --allow-host-dir")
		}
	}
	checked, err := hostdir.CheckMounts(mounts, HomeDir(), withheld)
	all := make([]engine.Mount, 0, len(checked))
	for _, m := range checked {
		if m.Undo && s.Sandbox.UndoBytes <= 0 {
			return nil, fmt.Errorf("%s: with --undo-limit 0 nothing is undone; leave ,undo out", m.Folder)
		}
		all = append(all, engine.Mount(m))
	}
	return all, err
}
