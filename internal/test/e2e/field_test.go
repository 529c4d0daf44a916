//go:build unix

package e2e

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/internet"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/npmregistry"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// fieldText has what people run in notebooks, REPLs and databases, a session each, with the answers that they expect.
//
//go:embed testdata/field.json
var fieldText []byte

type fieldCase struct {
	ID     string
	Kind   string
	Why    string
	Needs  []string // "python:" or "js:" and a package of the image, or "sql": fieldDatabase
	Server fieldServer
	Steps  []json.RawMessage // of a fieldStep, in which {{CA}} is the authority of the hosts
	Expect []fieldAnswer
}

type fieldStep struct {
	Tool      string
	Arguments object
	DelayMS   int `json:"delay_ms"` // before the step: files that it meets are that old
}

// fieldAnswer is what the answer to a step must be; what is left out is not looked at.
type fieldAnswer struct {
	Step         int // counted from 1
	Status       string
	StatusIn     []string         `json:"status_in"`
	ExitCode     *int             `json:"exit_code"`
	Error        string           // its name, which the text begins with
	Result       *string          // the value's text
	Includes     []string         `json:"text_includes"`
	Excludes     []string         `json:"text_excludes"`
	Matches      []string         `json:"text_matches"`
	Count        map[string]times `json:"text_count"`
	FirstBlock   []string         `json:"first_block_includes"`
	MaxText      int              `json:"max_text"` // characters
	Images       *int
	ImageMaxSide int      `json:"image_max_side"`
	Portrait     bool     `json:"image_portrait"`
	Artifacts    []string `json:"artifacts_include"`
	IsError      *bool
	ErrorCodeIn  []string `json:"error_code_in"`
	NoStructured bool     `json:"no_structured"`
	MaxRestBytes int      `json:"max_rest_bytes"` // of the whole answer without its images
	MaxMS        int      `json:"max_ms"`
}

// times is how often: a number, or the least and the most.
type times [2]int

func (n *times) UnmarshalJSON(text []byte) error {
	var exactly int
	if json.Unmarshal(text, &exactly) == nil {
		*n = times{exactly, exactly}
		return nil
	}
	return json.Unmarshal(text, (*[2]int)(n))
}

// fieldPatience is how many times longer than a person would wait the tests do: the machine is shared.
const fieldPatience = 5

func TestField(t *testing.T) {
	t.Parallel()
	var cases []fieldCase
	must.OK(t, strictly(fieldText, &cases))
	servers := make(map[string][]fieldCase) // by what is equal for the cases of one
	for _, c := range cases {
		servers[c.Kind+sprint(c.Server)] = append(servers[c.Kind+sprint(c.Server)], c)
	}
	for _, key := range slices.Sorted(maps.Keys(servers)) {
		cases := servers[key]
		t.Run(cases[0].Kind, func(t *testing.T) {
			t.Parallel()
			s, named := startField(t, cases)
			for _, c := range cases {
				t.Run(c.ID, func(t *testing.T) { c.play(t, s, named) })
			}
		})
	}
}

// strictly reads JSON that has no fields but those of into.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// wantNeeds checks that the images have what the case needs.
func (c fieldCase) wantNeeds(t *testing.T, s *server) {
	t.Helper()
	for _, need := range c.Needs {
		var res toolResult
		switch language, name, _ := strings.Cut(need, ":"); language {
		case "python":
			res = s.call(python, object{"code": "import " + name})
		case "js":
			res = s.call(javascript, object{"code": "import " + strconv.Quote(name)})
		default:
			continue
		}
		res.wantStatus(t, "completed")
	}
}

// fieldDatabase makes the tables that the cases read, and returns the connection string of their database.
func fieldDatabase(t *testing.T) string {
	t.Helper()
	db, conn := database(t)
	must.OK(t, should.ErrOf(conn.Exec(t.Context(), "CREATE DATABASE field")))
	t.Cleanup(func() {
		should.OK(t, should.ErrOf(conn.Exec(context.Background(), "DROP DATABASE field WITH (FORCE)")))
	})
	dsn := strings.Replace(db.DSN(testpg.Superuser), "dbname=postgres", "dbname=field", 1)
	in, err := pgx.Connect(t.Context(), dsn)
	must.OK(t, err)
	defer func() { _ = in.Close(t.Context()) }()
	for _, statement := range []string{
		"CREATE SCHEMA shop",
		`CREATE TABLE shop.items AS SELECT * FROM (VALUES (1, 'Anna', 'first'), (2, 'Bob', NULL), (3, 'Cleo', '')) i(id, name, "order")`,
		"CREATE TABLE shop.hits AS SELECT 0 AS n",
		"CREATE TABLE shop.codes AS SELECT to_char(1000 + i, 'FM00000') AS zip, CASE i WHEN 1 THEN E'a,b \"q\"\\nsecond line' WHEN 3 THEN 'NA' ELSE 'plain' END AS note, nullif(i, 1) AS n FROM generate_series(1, 60) i",
	} {
		must.OK(t, should.ErrOf(in.Exec(t.Context(), statement)))
	}
	return dsn
}

func (c fieldCase) play(t *testing.T, s *server, named map[string]string) {
	c.wantNeeds(t, s)
	id := "field-" + c.ID
	t.Cleanup(func() { s.call("close_session", object{"session_id": id}) })
	for i, text := range c.Steps {
		var step fieldStep
		for name, value := range named {
			quoted, _ := json.Marshal(value)
			text = bytes.ReplaceAll(text, []byte("{{"+name+"}}"), quoted[1:len(quoted)-1])
		}
		must.OK(t, strictly(text, &step))
		time.Sleep(time.Duration(step.DelayMS) * time.Millisecond)
		began := time.Now()
		res := step.take(t, s, id)
		for _, want := range c.Expect {
			if want.Step == i+1 {
				want.check(t, res, time.Since(began))
			}
		}
		if t.Failed() {
			t.Fatalf("step %d: %s\n%s", i+1, c.Why, tail(res.text()))
		}
	}
}

// take takes the step in the session, unless the step names another.
func (step fieldStep) take(t *testing.T, s *server, id string) toolResult {
	if step.Arguments["session_id"] == nil {
		step.Arguments["session_id"] = id
	}
	const generous = 15 // what is shorter is to be over
	if timeout, _ := step.Arguments["timeout_seconds"].(float64); timeout >= generous {
		step.Arguments["timeout_seconds"] = fieldPatience * timeout
	}
	res := s.call(step.Tool, step.Arguments)
	if run := res.Meta.Run; run != nil && run.Status == "running" {
		res = s.wait(run.RunID)
	}
	return res
}

// fieldValue is what a model reads as the value.
func fieldValue(text string) string {
	_, value, _ := strings.Cut(text, "\n[result]\n")
	for _, next := range []string{"\n[shown]\n", "\n[files]\n", "\n[goes on]\n", "\n[printed meanwhile"} {
		value, _, _ = strings.Cut(value, next)
	}
	return strings.TrimSuffix(value, "\n")
}

func (want fieldAnswer) check(t *testing.T, res toolResult, took time.Duration) {
	t.Helper()
	text, run := res.text(), res.Meta.Run
	if run == nil {
		run = &runResult{}
	}
	must := func(ok bool, what string, got, want any) {
		t.Helper()
		if !ok {
			t.Errorf("%s is %v, want %v", what, sprint(got), sprint(want))
		}
	}
	must(want.Status == "" || run.Status == want.Status, "status", run.Status, want.Status)
	must(want.StatusIn == nil || slices.Contains(want.StatusIn, run.Status), "status", run.Status, want.StatusIn)
	must(want.ExitCode == nil || run.ExitCode != nil && *run.ExitCode == *want.ExitCode, "exit code", run.ExitCode, want.ExitCode)
	must(want.Status != "completed" || run.Error == nil, "the error", run.Error, nil)
	must(want.Error == "" || run.Error != nil && run.Error.Name == want.Error && strings.HasPrefix(text, want.Error), "the error", run.Error, want.Error)
	must(want.Result == nil || fieldValue(text) == *want.Result, "the value", fieldValue(text), want.Result)
	for _, part := range want.Includes {
		must(strings.Contains(text, part), "a part of the text", "missing", part)
	}
	for _, part := range want.Excludes {
		must(!strings.Contains(text, part), "a part of the text", "there", "no "+part)
	}
	for _, pattern := range want.Matches {
		must(regexp.MustCompile(pattern).MatchString(text), "the text", "without a match", pattern)
	}
	for part, n := range want.Count {
		got := strings.Count(text, part)
		must(n[0] <= got && got <= n[1], "the number of "+part, got, n)
	}
	for _, part := range want.FirstBlock {
		must(strings.Contains(res.Content[0].Text, part), "a part of the first block", "missing", part)
	}
	must(want.MaxText == 0 || utf8.RuneCountInString(text) <= want.MaxText, "the text's length", len(text), want.MaxText)
	images, rest := res.images(), len(res.line)
	must(want.Images == nil || len(images) == *want.Images, "the number of images", len(images), want.Images)
	for _, i := range images {
		rest -= len(i.Data)
		if want.ImageMaxSide > 0 || want.Portrait {
			data, _ := base64.StdEncoding.DecodeString(i.Data)
			size, _, err := image.DecodeConfig(bytes.NewReader(data))
			must(err == nil && (want.ImageMaxSide == 0 || max(size.Width, size.Height) <= want.ImageMaxSide), "an image's size", size, want.ImageMaxSide)
			must(!want.Portrait || size.Height > size.Width, "an image's size", size, "higher than wide")
		}
	}
	for _, path := range want.Artifacts {
		must(slices.Contains(run.paths(), path), "the list of artifacts", run.paths(), path)
	}
	must(want.IsError == nil || res.IsError == *want.IsError, "isError", res.IsError, want.IsError)
	must(want.ErrorCodeIn == nil || res.Meta.Error != nil && slices.Contains(want.ErrorCodeIn, res.Meta.Error.Code), "the error", res.Meta.Error, want.ErrorCodeIn)
	must(!want.NoStructured || res.StructuredContent == nil, "structuredContent", "there", nil)
	must(want.MaxRestBytes == 0 || rest <= want.MaxRestBytes, "the answer without its images", rest, want.MaxRestBytes)
	most := slowed(fieldPatience * time.Duration(want.MaxMS) * time.Millisecond)
	must(most == 0 || took <= most, "the time that it took", took.String(), most.String())
}

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

// An image with nothing but the interpreter serves as well, with the language's plain semantics.
func TestABareImage(t *testing.T) {
	t.Parallel()
	image := testimage.BarePython(t)
	s := start(t, setup{env: []string{"CONTAINER_IMAGE=" + image, "CONTAINER_LANGUAGE=python"}})
	list := s.request("tools/list", object{})
	should.Hold(t, !strings.Contains(string(list.Result), "numpy"), "a tool promises what the image has not: %.2000s", list.line)
	var c fieldCase
	must.OK(t, strictly([]byte(`{"id": "bare", "steps": [
		{"tool": "run_python_code", "arguments": {"code": "print('said')\nx = 41; x + 1"}},
		{"tool": "run_python_code", "arguments": {"code": "1 / 0"}},
		{"tool": "run_python_code", "arguments": {"code": "while True: pass", "timeout_seconds": 1}},
		{"tool": "run_python_code", "arguments": {"code": "x"}}
	], "expect": [
		{"step": 1, "status": "completed", "result": "42", "text_matches": ["^completed in \\S+\nsaid\n\\[result\\]\n"]},
		{"step": 2, "status": "failed", "exit_code": 1, "error": "ZeroDivisionError", "text_includes": ["<cell"]},
		{"step": 3, "status": "timed_out"}, {"step": 4, "status": "completed", "result": "41"}
	]}`), &c))
	c.play(t, s, nil)
}
