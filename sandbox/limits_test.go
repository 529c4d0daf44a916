//go:build unix

package sandbox

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

func TestLimitsOfASession(t *testing.T) {
	for name, test := range map[string]struct {
		asked   SessionLimits
		memory  int64
		cpus    float64
		longest time.Duration
		note    string
	}{
		"none":            {SessionLimits{}, 1 << 30, 2, time.Hour, ""},
		"less of all":     {SessionLimits{MemoryBytes: 256 << 20, CPUs: 0.5, RunTimeout: time.Minute}, 256 << 20, 0.5, time.Minute, ""},
		"of memory alone": {SessionLimits{MemoryBytes: 256 << 20}, 256 << 20, 2, time.Hour, ""},
		"more than there is": {SessionLimits{MemoryBytes: 8 << 30, CPUs: 16, RunTimeout: 9 * time.Hour}, 1 << 30, 2, time.Hour,
			"Limits were changed to what this server allows: memory from 8.0 GiB to 1.0 GiB, processors from 16 to 2, timeout from 9h0m0s to 1h0m0s."},
		"less than works": {SessionLimits{MemoryBytes: 1 << 20, CPUs: 0.001}, 128 << 20, 0.05, time.Hour, "memory from 1.0 MiB to 128 MiB, processors from 0.001 to 0.05."},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			e.play(completingRuns)
			config := testConfig(t, e)
			config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 100}
			config.MaxRunTimeout = time.Hour
			m := newTestManager(t, config)
			res := mustRun(t, m, RunOptions{SessionID: "limited", Language: Python, Code: "1", Limits: test.asked})
			got := e.specs()[0].Limits
			if got.MemoryBytes != test.memory || got.CPUs != test.cpus || got.PIDs != 100 {
				t.Errorf("the container has %+v", got)
			}
			if notes := strings.Join(res.Notes, "\n"); test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
				t.Errorf("notes: %q", notes)
			}
			info, err := m.Session(context.Background(), "limited")
			if err != nil || info.Limits != (SessionLimits{MemoryBytes: test.memory, CPUs: test.cpus, RunTimeout: test.longest}) || info.Limited != (test.asked != SessionLimits{}) {
				t.Errorf("it tells %+v, %v, %v", info.Limits, info.Limited, err)
			}
			if own, other := m.MemoryLimit("limited"), m.MemoryLimit("other"); own != test.memory || other != 1<<30 {
				t.Errorf("it has %d bytes of memory, and another session %d", own, other)
			}
		})
	}
}

func TestASessionKeepsTheLimitsThatItBeganWith(t *testing.T) {
	e := newEngine(t)
	e.play(completingRuns)
	config := testConfig(t, e)
	config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2}
	m := newTestManager(t, config)
	first := SessionLimits{MemoryBytes: 256 << 20, RunTimeout: 20 * time.Second}
	mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "1", Limits: first})
	const kept = "This session keeps the limits that it began with (256 MiB memory, 2 processors, runs of at most 20s)"
	for name, test := range map[string]struct {
		options RunOptions
		note    string
	}{
		"others":          {RunOptions{Language: Python, Limits: SessionLimits{MemoryBytes: 512 << 20}}, kept},
		"the same":        {RunOptions{Language: Python, Limits: first}, ""},
		"none":            {RunOptions{Language: Python}, ""},
		"a timeout above": {RunOptions{Language: Python, Timeout: 30 * time.Second}, "The timeout was lowered from 30s to 20s, the limit of this session."},
		"a timeout below": {RunOptions{Language: Python, Timeout: 10 * time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.SessionID, test.options.Code = "s", "1"
			notes := strings.Join(mustRun(t, m, test.options).Notes, "\n")
			if test.note == "" && notes != "" || !strings.Contains(notes, test.note) {
				t.Errorf("notes: %q", notes)
			}
		})
	}
	for _, spec := range e.specs() {
		if spec.Limits.MemoryBytes != 256<<20 {
			t.Errorf("%s has %d bytes of memory", spec.Name, spec.Limits.MemoryBytes)
		}
	}
}

// A later server takes the kernel over with the limits that it has, and knows them.
func TestLimitsOutliveTheirServer(t *testing.T) {
	e := newEngine(t)
	config := testConfig(t, e)
	config.Limits = engine.Limits{MemoryBytes: 1 << 30, CPUs: 2}
	limits := SessionLimits{MemoryBytes: 256 << 20, CPUs: 0.5, RunTimeout: 20 * time.Second}
	m := newTestManager(t, config)
	mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "x = 41", Limits: limits})
	m.Close(t.Context())

	m = newTestManager(t, config)
	if info, err := m.Session(t.Context(), "s"); err != nil || info.Limits != limits || !info.Limited {
		t.Errorf("before it is opened: %+v, %v", info.Limits, err)
	}
	res := mustRun(t, m, RunOptions{SessionID: "s", Language: Python, Code: "x + 1", Limits: SessionLimits{MemoryBytes: 512 << 20}})
	if res.Value == nil || *res.Value != "42" {
		t.Errorf("its variables are gone: %+v", res)
	}
	wantNote(t, res, "This session keeps the limits that it began with")
	if info, err := m.Session(t.Context(), "s"); err != nil || info.Limits != limits {
		t.Errorf("afterwards: %+v, %v", info.Limits, err)
	}
	should.Equal(t, len(e.specs()), 1, "containers were made")
}
