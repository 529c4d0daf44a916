//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

// fieldServer is what a case wants of its server beside what most clients start.
type fieldServer struct {
	Internet bool // names below field.test lead to hosts of the test's own
	Args     []string
	Env      map[string]string
}

// startField starts a server with the database, indexes and hosts that these cases of one server need, and returns what
// their steps may name as well.
func startField(t *testing.T, cases []fieldCase) (s *server, named map[string]string) {
	t.Helper()
	want, named := cases[0].Server, make(map[string]string)
	with := setup{env: []string{"SANDBOX_STRUCTURED_CONTENT=false", "SANDBOX_RUN_TIMEOUT=" + slowed(fieldPatience*time.Minute).String()}}
	places := fieldIndexes(t, sprint(want))
	for _, arg := range want.Args {
		with.args = append(with.args, places.Replace(arg))
	}
	for name, value := range want.Env {
		with.env = append(with.env, name+"="+places.Replace(value))
	}
	if slices.ContainsFunc(cases, func(c fieldCase) bool { return slices.Contains(c.Needs, "sql") }) {
		with.env = append(with.env, "SANDBOX_SQL_MAIN="+fieldDatabase(t))
	}
	if want.Internet {
		net := internet.New(t)
		program, env := net.Program(t, binary)
		with.program, with.env = program, append(with.env, env...)
		with.args = append(with.args, "--engine-url", podmanURL) // a service of its own would have its containers in the namespace
		named["CA"] = net.CA
	}
	return start(t, with), named
}

// fieldIndexes starts the indexes that settings name, and returns what puts their addresses into these.
func fieldIndexes(t *testing.T, settings string) *strings.Replacer {
	t.Helper()
	var places []string
	if strings.Contains(settings, "{PYPI") {
		open, page, locked := pypi.Start(t), pypi.Start(t), pypi.Start(t)
		for _, index := range []*pypi.Index{open, page, locked} {
			index.Add(fieldPython()...)
		}
		page.Set(pypi.Knobs{Form: pypi.HTML, Static: true})
		locked.Set(pypi.Knobs{User: "user", Password: "pass word"})
		places = append(places, "{PYPI}/simple/", open.URL, "{PYPI}/html/", page.URL,
			"{PYPI_AUTH}/auth/", strings.Replace(locked.URL, "://", "://user:pass%20word@", 1))
	}
	if strings.Contains(settings, "{NPM}") {
		registry := npmregistry.Start(t)
		registry.Add(fieldNode()...)
		places = append(places, "{NPM}", registry.URL)
	}
	return strings.NewReplacer(places...)
}

// long is when what is not new was published.
var long = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)

// fieldPython are the packages of Python that the cases name.
func fieldPython() []pypi.Package {
	module := func(name, source string) map[string]string { return map[string]string{name: source} }
	packages := []pypi.Package{
		{Name: "field-basic", Version: "1.0"}, {Name: "field-basic", Version: "1.1"}, {Name: "field-basic", Version: "1.2", Yanked: "by mistake"},
		{Name: "field-basic", Version: "2.0"}, {Name: "field-basic", Version: "2.1", Uploaded: time.Now().Add(-time.Hour)}, {Name: "field-basic", Version: "3.0rc1"},
		{Name: "field-dep", Version: "1.0", Requires: []string{"field-basic", `field-extra; extra == "more"`}},
		{Name: "field-extra", Version: "1.0"}, {Name: "field-plugin", Version: "1.0"},
		{Name: "Field.Odd_Name", Version: "1.0", Modules: module("field/odd.py", "value = 'odd'\n")},
		{Name: "field-future", Version: "2.9"}, {Name: "field-future", Version: "3.0", RequiresPython: ">=4"},
		{Name: "field-cli", Version: "1.0", Modules: map[string]string{
			"field_cli.py": "import sys\ndef main():\n    print('cli says', sys.argv[1:])\n    return 3\nif __name__ == '__main__':\n    sys.exit(main())\n",
			"field_cli-1.0.dist-info/entry_points.txt": "[console_scripts]\nfield-cli = field_cli:main\n",
		}},
		{Name: "field-data", Version: "1.0", Modules: module("field_data-1.0.data/scripts/field-script", "#!python\nprint('script ran')\n")},
		{Name: "field-windows", Version: "1.0", Tag: "py3-none-win_amd64"}, {Name: "field-source", Version: "1.0", NoWheel: true},
		{Name: "field-badhash", Version: "1.0", WrongHash: true}, {Name: "tabulate", Version: "99.1"},
	}
	for i := range packages {
		if packages[i].Uploaded.IsZero() {
			packages[i].Uploaded = long
		}
	}
	return packages
}

// fieldNode are the packages of npm that the cases name.
func fieldNode() []npmregistry.Package {
	index := func(source string) map[string]string { return map[string]string{"index.js": source} }
	left := func(version, minor, tag string) npmregistry.Package {
		return npmregistry.Package{Name: "field-left", Version: version, Tag: tag, Files: index("module.exports = s => 'left" + minor + " ' + s; module.exports.named = 11\n")}
	}
	packages := []npmregistry.Package{
		left("1.0.0", "1.0", ""), left("1.1.0", "1.1", ""), left("2.0.0", "2.0", "next"),
		{Name: "field-peer", Version: "1.0.0", Manifest: object{"peerDependencies": object{"field-left": "^2.0.0"}}, Files: index("module.exports = require('field-left')('peer')\n")},
		{Name: "field-old", Version: "1.0.0", Manifest: object{"deprecated": "use another", "engines": object{"node": "<10"}}, Files: index("module.exports = 'old'\n")},
		{Name: "field-bin", Version: "1.0.0", Manifest: object{"bin": object{"field-bin": "index.js"}}, Files: index("#!/usr/bin/env node\nconsole.log('bin says', ...process.argv.slice(2), '1.0.0')\n")},
		{Name: "field-dual", Version: "1.0.0", Manifest: object{"exports": object{"import": "./index.mjs", "require": "./index.js"}}, Files: map[string]string{
			"index.js": "exports.kind = 'cjs'\n", "index.mjs": "export const kind = 'esm'\nexport default { kind }\n",
		}},
		{Name: "@field/scoped", Version: "1.0.0"}, {Name: "lodash", Version: "4.99.0", Files: index("exports.VERSION = '4.99.0'\n")},
	}
	for i := range packages {
		packages[i].Published = long
	}
	return packages
}
