package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// asleep is an engine that has the volumes of sessions, and nothing else.
type asleep struct {
	engine.Engine
	volumes []engine.Volume
	listed  int
}

func (a *asleep) List(_ context.Context, key, _ string) (engine.Inventory, error) {
	a.listed++
	if key == LabelSession {
		return engine.Inventory{}, errors.New("each session is asked for")
	}
	return engine.Inventory{Volumes: a.volumes}, nil
}

// BenchmarkAThousandSleepers is what a server does with a thousand sessions that sleep: it lists them, sweeps, and looks
// whether there is room for one more.
func BenchmarkAThousandSleepers(b *testing.B) {
	config := DefaultConfig()
	box := &asleep{}
	config.Engine, config.Host, config.StateDir = box, "host", b.TempDir()
	for i := range 1000 {
		id := fmt.Sprint("session-", i)
		lock, err := state.Take(config.StateDir, id)
		if err != nil {
			b.Fatal(err)
		}
		r := state.NewRecord()
		r.Settings, r.SizeBytes, r.IdleSeconds, r.KeepSeconds = map[string]string{"python": ""}, 1<<20, 1800, 1e7
		if err := errors.Join(r.Save(config.StateDir, id), lock.Keep(), lock.Touch(time.Now().Add(-time.Hour))); err != nil {
			b.Fatal(err)
		}
		lock.Release()
		box.volumes = append(box.volumes, engine.Volume{Name: "csm-host-" + id, Labels: map[string]string{LabelSession: id, LabelHost: "host", LabelNamed: "true"}})
	}
	m := NewManager(config)
	defer m.Close(context.Background())
	for name, work := range map[string]func(){
		"list": func() {
			if list := m.Sessions(b.Context()); len(list) != 1000 || list[0].State != StateAsleep {
				b.Fatalf("listed %d", len(list))
			}
		},
		"sweep": func() {
			if swept, err := Sweep(b.Context(), &config); err != nil || len(swept) > 0 {
				b.Fatalf("swept %v, %v", swept, err)
			}
		},
		"room": func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if err := m.room("more", nil); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				work()
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys>>20), "MB")
		})
	}
}
