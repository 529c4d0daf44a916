package replicas_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/replicas"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// one is a replica of a test.
type one struct {
	*replicas.Replicas

	dir  string
	view *view
	lost chan struct{}
}

// join makes a replica with a folder of its own.
func join(t *testing.T, m *memory, name string) *one {
	t.Helper()
	return joinIn(t, m, name, filepath.Join(t.TempDir(), "state", "sessions"))
}

func joinIn(t *testing.T, m *memory, name, dir string) *one {
	t.Helper()
	o := &one{dir: dir, view: &view{memory: m}, lost: make(chan struct{})}
	var err error
	o.Replicas, err = replicas.Join(t.Context(), replicas.Options{
		Leases: o.view, Group: "group", Name: name, Address: name + ":80", StateDir: o.dir,
		Lost: func() { close(o.lost) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *one) leave() { o.Leave(context.Background()) }

func take(t *testing.T, dir, id string) *state.Lock {
	t.Helper()
	lock, err := state.Take(dir, id)
	if err != nil {
		t.Fatalf("take %s: %v", id, err)
	}
	return lock
}

func isLocked(t *testing.T, dir, id, when string) {
	t.Helper()
	if _, err := state.Take(dir, id); !errors.Is(err, state.ErrLocked) {
		t.Errorf("%s, taking it says %v", when, err)
	}
}

func TestASessionIsOneReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer a.leave()
		defer b.leave()
		if err := state.SaveTenant(a.dir, "key", "ann"); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range []string{"", "key"} {
			here, there := state.TenantDir(a.dir, tenant), state.TenantDir(b.dir, tenant)
			lock := take(t, here, "Mine")
			if lock.Found {
				t.Error("a new one was found")
			}
			isLocked(t, here, "Mine", "where it is taken")
			isLocked(t, there, "Mine", "where another has it")
			r := state.NewRecord()
			r.Settings["python"] = "key"
			if err := errors.Join(lock.Keep(), r.Save(here, "Mine"), state.Pin(there, "Mine", true)); err != nil {
				t.Fatal(err)
			}
			used := time.Now().Add(time.Hour)
			if err := lock.Touch(used); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if kept := state.Kept(there); len(kept) != 1 || !kept["Mine"].Equal(used) {
				t.Errorf("another replica sees %v", kept)
			}
			lock.Release()
			lock = take(t, there, "Mine")
			got := state.LoadRecord(there, "Mine")
			if !lock.Found || !lock.Kept() || got == nil || got.Token != r.Token || !state.IsPinned(there, "Mine") {
				t.Errorf("the next holder: found %v, kept %v, %+v", lock.Found, lock.Kept(), got)
			}
			if want, ok := state.Places(there), got != nil; ok && len(want) != 0 {
				t.Errorf("places: %v", want)
			}
			lock.Remove()
			synctest.Wait()
			if ids := slices.Concat(state.IDs(here), state.IDs(there)); len(ids) != 0 {
				t.Errorf("of what has ended there is %q", ids)
			}
			if lock = take(t, here, "Mine"); lock.Found || lock.Kept() || state.LoadRecord(here, "Mine") != nil {
				t.Error("another of its name has something of it")
			}
			lock.Unlock()
		}
	})
}

func TestADeadReplicaIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer b.leave()
		lock := take(t, a.dir, "mine")
		if err := lock.Keep(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(renewals)
		restore, died := a.view.cutOff(), time.Now()
		for {
			next, err := state.Take(b.dir, "mine")
			if err == nil {
				if !next.Kept() {
					t.Error("its mark is lost")
				}
				break
			}
			if a.Ready(canceled()) == nil && time.Since(died) > 4*time.Second {
				t.Fatal("the replica would act for what another could have")
			}
			if time.Sleep(50 * time.Millisecond); time.Since(died) > 5*time.Second {
				t.Fatalf("after 5 s: %v", err)
			}
		}
		t.Logf("followed after %v", time.Since(died))
		if err := a.Ready(canceled()); err == nil {
			t.Error("the dead one would act")
		}
		restore() // as when a paused process goes on
		if err := lock.Drop(); err == nil {
			t.Error("the dead one wrote")
		}
		lock.Remove()
		<-a.lost
		isLocked(t, a.dir, "mine", "after its end")
		a.leave()
		if kept := state.Kept(b.dir); len(kept) != 1 {
			t.Errorf("there is %v", kept)
		}
	})
}

// renewals is some time.
const renewals = 10 * time.Second

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestWhereNobodyReachesTheServerAllGoOnAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer a.leave()
		defer b.leave()
		mine, yours, leaving := take(t, a.dir, "mine"), take(t, b.dir, "yours"), take(t, a.dir, "leaving")
		time.Sleep(renewals)
		ends := []func(){a.view.cutOff(), b.view.cutOff()}
		time.Sleep(time.Minute)
		if a.Ready(canceled()) == nil || b.Ready(canceled()) == nil {
			t.Error("one acts that cannot know what it has")
		}
		leaving.Release()
		for _, restore := range ends {
			restore()
			time.Sleep(time.Second) // one is back before the other
		}
		time.Sleep(renewals)
		select {
		case <-a.lost:
			t.Fatal("one has lost what it had")
		case <-b.lost:
			t.Fatal("the other has lost what it had")
		default:
		}
		if err := errors.Join(a.Ready(canceled()), b.Ready(canceled()), mine.Keep(), yours.Keep()); err != nil {
			t.Error(err)
		}
		isLocked(t, b.dir, "mine", "afterwards")
		isLocked(t, a.dir, "yours", "afterwards")
		take(t, b.dir, "leaving").Release()
	})
}

func TestAWatchThatStallsIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer a.leave()
		defer b.leave()
		time.Sleep(renewals)
		b.view.stall(false)
		if err := take(t, a.dir, "theirs").Keep(); err != nil {
			t.Fatal(err)
		}
		take(t, b.dir, "mine").Release()
		if kept := state.Kept(b.dir); kept["theirs"].IsZero() {
			t.Errorf("what is known when a session is taken: %v", kept)
		}
		synctest.Wait() // another watch has begun
		// Who cannot find out has nothing.
		b.view.stall(true)
		time.Sleep(time.Second)
		if err := take(t, a.dir, "theirs too").Keep(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"mine", "new"} {
			if _, err := state.Take(b.dir, id); err == nil || errors.Is(err, state.ErrLocked) {
				t.Errorf("%s is taken by who knows of nothing: %v", id, err)
			}
			take(t, a.dir, id).Remove()
		}
		b.view.stall(false)
		take(t, b.dir, "new").Remove()
	})
}

// What another replica has is not this one's to remove, and what becomes of it is seen.
func TestAnothersSessionIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer a.leave()
		defer b.leave()
		lock := take(t, b.dir, "theirs")
		a.Remove("", "theirs")
		if err := lock.Keep(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if kept := state.Kept(a.dir); kept["theirs"].IsZero() {
			t.Errorf("another replica sees %v", kept)
		}
	})
}

func TestAReplicaThatLeavesIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer b.leave()
		take(t, a.dir, "released").Release()
		take(t, a.dir, "held")
		a.Withdraw()
		a.leave()
		began := time.Now()
		take(t, b.dir, "released").Release()
		take(t, b.dir, "held").Release()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestWhatAnEarlierProcessKnewIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a, b := join(t, m, "a"), join(t, m, "b")
		defer b.leave()
		for _, id := range []string{"gone", "there"} {
			lock := take(t, a.dir, id)
			if err := lock.Keep(); err != nil {
				t.Fatal(err)
			}
			lock.Release()
		}
		a.leave()
		take(t, b.dir, "gone").Remove()
		again := joinIn(t, m, "a2", a.dir)
		defer again.leave()
		if kept := state.Kept(again.dir); len(kept) != 1 || kept["there"].IsZero() {
			t.Errorf("there is %v", kept)
		}
	})
}
