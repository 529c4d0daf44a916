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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	testpg "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/postgres"
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
