package setup

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestABuildsOutputBecomesSteps(t *testing.T) {
	task := &recordedTask{}
	s := &steps{log: newLog(task.Line), task: task}
	out := &lines{emit: s.read}
	_, _ = out.Write([]byte(`[1/2] STEP 1/2: FROM localhost/debian:trixie-slim AS packages
[1/2] STEP 2/2: RUN --mount=type=bind,source=host,target=/run/host . /run/host/env && export DEBIAN_FRONTEND=noninteractive  && apt-get update
Get:1 http://deb.debian.org/debian trixie InRelease
[2/2] STEP 1/3: FROM localhost/debian:trixie-slim
[2/2] STEP 2/3: ENV LANG=C.UTF-8
[2/2] STEP 3/3: COPY --from=packages /opt /opt
[2/2] COMMIT
`))
	want := []string{
		"step 0/4 FROM localhost/debian:trixie-slim AS packages",
		"step 1/4 RUN apt-get update",
		"line Get:1 http://deb.debian.org/debian trixie InRelease",
		"step 3/6 FROM localhost/debian:trixie-slim",
		"step 5/6 COPY --from=packages /opt /opt",
		"line [2/2] COMMIT",
	}
	if !reflect.DeepEqual(task.calls, want) {
		t.Errorf("got:\n%s", strings.Join(task.calls, "\n"))
	}
}

func TestOutputThatOnlyLooksLikeStepsDoesNoHarm(t *testing.T) {
	task := &recordedTask{}
	s := &steps{log: newLog(task.Line), task: task}
	for _, line := range []string{
		"STEP 0/0: RUN x", "STEP 99999999999999999999/1: RUN x", "[9/0] STEP 3/2: RUN x",
		"STEP one/two: RUN x",
	} {
		s.read(line)
	}
	for _, call := range task.calls {
		if strings.Contains(call, "/0 ") {
			t.Errorf("no progress can be drawn of %q", call)
		}
	}
}

func TestABuildsErrorIsCutToWhatAPersonReads(t *testing.T) {
	long := `building at STEP "RUN --mount=type=bind,source=host,target=/run/host . /run/host/env  && apt-get update  && apt-get install ` +
		strings.Repeat("package ", 50) + `": while running runtime: exit status 100` + "\n"
	want := "RUN apt-get update && apt-get install package package packa…: while running runtime: exit status 100"
	should.Equal(t, shortBuildError(errors.New(long)).Error(), want)
	other := errors.New("server probably quit: unexpected EOF")
	should.Equal(t, shortBuildError(other).Error(), other.Error(), "an error of another kind is changed")
}
