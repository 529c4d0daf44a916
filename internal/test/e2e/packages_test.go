//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

const installPackages = "install_packages"

// startIndexes starts a server whose packages come from indexes of the test's own.
func startIndexes(t *testing.T) (*server, *npmregistry.Registry) {
	t.Helper()
	index, registry := pypi.Start(t), npmregistry.Start(t)
	index.Add(
		pypi.Package{Name: "late-one", Version: "1.0", Requires: []string{"helper"}}, pypi.Package{Name: "helper", Version: "3.1"},
		pypi.Package{Name: "denied-one", Version: "1.0"}, pypi.Package{Name: "other", Version: "1.0"},
		pypi.Package{Name: "other", Version: "2.0"}, pypi.Package{Name: "by-script", Version: "7"},
	)
	registry.Add(
		npmregistry.Package{Name: "late-js", Version: "1.2.3", Dependencies: map[string]string{"@scope/helper": "^1.0.0"}},
		npmregistry.Package{Name: "@scope/helper", Version: "1.5.0"}, npmregistry.Package{Name: "denied-js", Version: "1.0.0"},
		npmregistry.Package{Name: "other-js", Version: "1.0.0"},
	)
	return start(t, setup{args: []string{"--pypi-index-url", index.URL, "--npm-registry", registry.URL, "--packages-deny", "pypi:denied-*,npm:denied-js"}}), registry
}

func TestWhatNpmInstallsGloballyIsFound(t *testing.T) {
	t.Parallel()
	s, registry := startIndexes(t)
	registry.Add(npmregistry.Package{Name: "cli-js", Version: "1.0.0", Manifest: map[string]any{"bin": map[string]string{"say-hello": "say.js"}}, Files: map[string]string{
		"say.js": "#!/usr/bin/env node\nconsole.log('hello from', require('./package.json').version)", "index.js": "module.exports = 'the library'",
	}})
	s.js("require('child_process').execSync('npm install --location=global cli-js && say-hello && npm uninstall -g cli-js', { encoding: 'utf8' })").
		wantText(t, "hello from 1.0.0")
	s.js("require('child_process').execSync('npm install -g cli-js'); require('cli-js')").wantText(t, "the library")
	s.js("(await import('cli-js')).default").wantText(t, "the library")
	s.call("list_artifacts", object{}).wantText(t, "no files")
}

func TestPackagesAreInstalled(t *testing.T) {
	t.Parallel()
	s, _ := startIndexes(t)
	s.call(python, object{"code": "import late_one"}).wantText(t, "ModuleNotFoundError")
	s.call(installPackages, object{"language": "python", "packages": []string{"late-one", "numpy"}}).
		wantText(t, "installed helper 3.1", "installed late-one 1.0", "already there: numpy", ".packages/python.log")
	if got := s.py("import late_one; late_one.__version__").Meta.Run.value(); got != "'1.0'" { // by the kernel that has missed it
		t.Errorf("late_one is %s", got)
	}
	s.call(python, object{"code": "!pip uninstall -qy helper"})
	s.call(installPackages, object{"language": "python", "packages": []string{"late-one", "other; sys_platform == 'win32'"}}).
		wantText(t, "installed helper 3.1", "already there: late-one", "not needed here, its marker says: other")
	s.py("# /// script\n# dependencies = [\"by-script\"]\n# ///\nimport by_script; by_script.__version__").wantText(t, "'7'")
	s.py("import fcntl; turn = open('.packages/turn', 'w'); fcntl.flock(turn, fcntl.LOCK_EX)")
	s.call(python, object{"code": "import never_there"}).wantText(t, "an installation of this session goes on")
	s.py("turn.close()")
	s.py("!uv pip install -q other==2.0\n!uv pip install --system -q other==1.0\nimport other; other.__version__").wantText(t, "'1.0'")
	s.py("!pip install -q 'other>1'\n").wantText(t, "note: other 2.0 is installed, and other stays imported as 1.0")
	s.call(installPackages, object{"language": "javascript", "packages": []string{"late-js@1"}}).wantText(t, "installed @scope/helper 1.5.0", "installed late-js 1.2.3")
	s.complete(javascript, object{"code": "require('late-js') + require('other-js')", "dependencies": []string{"other-js"}}).wantText(t, "1.2.3")
	s.call("session_info", object{"packages": true}).wantText(t, `{"name":"late_one","version":"1.0"}`, `{"name":"late-js","version":"1.2.3"}`)
}

func TestPackagesThatAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := startIndexes(t)
	for _, test := range []struct {
		language string
		packages any
		code     string
		says     string
	}{
		{"python", []string{"denied-one"}, "package_denied", "denied-*"},
		{"javascript", []string{"denied-js@1.0.0"}, "package_denied", "denied-js"},
		{"python", []string{"is-not-there"}, "install_failed", "is-not-there"},
		{"javascript", []string{"is-not-there-js"}, "install_failed", "is-not-there-js"},
		{"ruby", []string{"rails"}, "invalid_argument", "ruby"},
		{"python", slices.Repeat([]string{"other"}, 51), "invalid_argument", "51"},
	} {
		got := s.call(installPackages, object{"language": test.language, "packages": test.packages})
		got.wantCode(t, test.code)
		got.wantText(t, test.says)
	}
	s.py("!pip install denied-one").wantText(t, "package_denied", "denied-*")
	s.py("!cd /tmp && python3 -m venv --system-site-packages v && v/bin/pip install -q denied-one").wantText(t, "package_denied")
	s.js("require('child_process').spawnSync('npm', ['install', 'denied-js'], { encoding: 'utf8' }).stderr").wantText(t, "package_denied", "denied-js")
	s.call(python, object{"code": "1", "dependencies": []string{"denied-one"}}).wantCode(t, "package_denied")
	if got := s.py("1 + 1").Meta.Run.value(); got != "2" {
		t.Error(got)
	}
	id := s.py("1").Meta.Run.SessionID
	var network struct{ Contents []struct{ Text string } }
	decode(t, s.request("resources/read", object{"uri": "session://" + id + "/network"}).Result, &network)
	if text := network.Contents[0].Text; !strings.Contains(text, `"path": "/pypi/simple/denied-one/"`) || !strings.Contains(text, `"allowed": false`) {
		t.Errorf("the log does not have the refusal: %.2000s", text)
	}
}
