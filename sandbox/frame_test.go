package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFramesSurviveTheWay(t *testing.T) {
	var wire bytes.Buffer
	for _, text := range []string{"", "plain", "line\nbreak \x00 \"quoted\" é", strings.Repeat("x", 100_000)} {
		if err := writeFrame(&wire, map[string]string{"type": "run", "code": text}); err != nil {
			t.Fatal(err)
		}
		body, err := readFrame(&wire)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(body, &got); err != nil || got["code"] != text {
			t.Errorf("%.20q came back as %.20q, %v", text, got["code"], err)
		}
	}
	if _, err := readFrame(&wire); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestFramesThatAreTooLargeAreRefused(t *testing.T) {
	if err := writeFrame(io.Discard, strings.Repeat("x", maxFrameOut)); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("write: %v", err)
	}
	forged := binary.BigEndian.AppendUint32(nil, maxFrameIn+1)
	if _, err := readFrame(bytes.NewReader(forged)); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("read: %v", err)
	}
}

func TestShapeCountsWhatIsOutsideOfText(t *testing.T) {
	for text, want := range map[string][2]int{
		``: {}, `1`: {}, `{}`: {1, 1}, `[[]]`: {2, 2}, `"[[[[,,"`: {}, `["\"[[,", [1]]`: {2, 3}, `{"a":[{"b":1}],"c":{}}`: {3, 5}, `"\\"[`: {1, 1},
	} {
		deepest, values := shape([]byte(text))
		if got := [2]int{deepest, values}; got != want {
			t.Errorf("shape(%s) = %v, want %v", text, got, want)
		}
	}
}

// A frame within the bound of its length could cost a hundred times that to decode.
func TestAFrameOfTooManyValuesEndsItsKernel(t *testing.T) {
	for values, want := range map[int]Status{maxFrameValues - 10: Completed, maxFrameValues: Killed} {
		synctest.Test(t, func(t *testing.T) {
			m := newTestManager(t, testConfig(t, &fakeEngine{supervise: func(s *fakeSupervisor) {
				s.ready()
				s.next()
				run, _ := s.next()
				s.send(map[string]any{"type": "log", "more": make([]int, values)})
				s.done(run.ID, "completed", 0, nil)
			}}))
			if res := mustRun(t, m, RunOptions{Code: "1"}); res.Status != want {
				t.Errorf("%d values: %s", values, res.Status)
			}
		})
	}
}

// What cannot be written as JSON would take the whole answer with it.
func TestForgedTimesAndNumbersAreBoundedInResults(t *testing.T) {
	for sign, want := range map[int64]Result{-1: {}, 1: {ExitCode: maxExitCode, Duration: maxTookMS * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			m := newTestManager(t, testConfig(t, &fakeEngine{supervise: func(s *fakeSupervisor) {
				s.ready()
				s.next()
				run, _ := s.next()
				s.done(run.ID, "failed", int(sign*math.MaxInt64), map[string]any{
					"duration_ms": float64(sign) * 1e300, "artifacts": []any{map[string]any{"path": "a", "modified_ms": sign * math.MaxInt64}},
				})
			}}))
			res := mustRun(t, m, RunOptions{Code: "1"})
			if res.ExitCode != want.ExitCode || res.Duration != want.Duration || len(res.Artifacts) != 1 {
				t.Fatalf("got %+v", res)
			}
			if _, err := json.Marshal(res.Artifacts[0].Modified); err != nil {
				t.Error(err)
			}
		})
	}
}

// A terminal takes U+009B for the beginning of a sequence, as it does ESC [.
func TestControlCharactersAreShownAndNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, testConfig(t, &fakeEngine{}))
		res := mustRun(t, m, RunOptions{Code: "a\tb\r\n\x1b[31m\x00 \x7f \u0080\u009b31m\u009f\u00a0é"})
		if want := "a\tb\r\n␛[31m␀ ␡ \ufffd\ufffd31m\ufffd\u00a0é"; *res.Value != want {
			t.Errorf("got %q, want %q", *res.Value, want)
		}
	})
}

func TestSafePathKeepsWithinTheWorkDirectory(t *testing.T) {
	for path, want := range map[string]string{
		"a.txt": "a.txt", "a/./b//c": "a/b/c", "a/../b": "b", "": "", ".": "", "..": "", "../a": "", "a/../../b": "",
		"/etc/passwd": "", "a\x00b": "", "a\nb": "", "a\x7fb": "", "a\u009b31mb": "", "\xff": "", strings.Repeat("a", 5000): "", "...": "...", "..a/b": "..a/b",
	} {
		if got := safePath(path); got != want {
			t.Errorf("safePath(%.20q) = %q, want %q", path, got, want)
		}
	}
}

// FuzzTake feeds a kernel whatever a taken-over supervisor could send.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"type":"ready","protocol":1,"version":"3"}`, `{"type":"done","id":"r","status":"completed","artifacts":[{"path":"x"}]}`,
		`{"type":"display","id":"r","data":{"image/png":"AAAA","text/html":"<b>"}}`, `{"type":"progress","id":"r","last_line":"\ud800"}`,
		`{"type":"peek","id":"r","stdout":{"head":"x","bytes":-1}}`, `{"type":"kernel","cause":"memory"}`, `[`, `{"type":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		k := newKernel(nil, wireLimits{OutputBytes: 100, MaxDisplays: 2, MaxArtifacts: 2}, discardLog)
		run := newRun(t.Context(), "r", "s", RunOptions{})
		answer := make(chan doneMessage, 1)
		k.current, k.answer = run, answer
		_ = k.take(body)
		select {
		case m := <-answer:
			res := (&session{id: "s", config: &Config{OutputBytes: 100}}).result(run, m)
			if len(res.Stdout.Head) > 103 || len(res.Artifacts) > maxArtifacts {
				t.Errorf("not bounded: %+v", res)
			}
		default:
		}
		if len(run.displays) > 2 {
			t.Errorf("%d displays", len(run.displays))
		}
	})
}
