package place

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// spares keeps spares ready: containers for future sessions of the languages used in this server, as many as the last burst of
// sessions took. They belong to nobody and to no tenant, use the server's own limits, and serve one session each. At its end a server leaves them to the next server of the same
// state folder; they end by themselves if none takes them in the idle time.
type spares struct {
	config  *Config
	supply  *Supply
	ctx     context.Context // of the background work
	working *sync.WaitGroup

	filling sync.Mutex // one container comes up at a time

	Mu     sync.Mutex
	wanted []runs.Language // in the order of their first uses
	Ready  []*spare        // the oldest first
	quiet  *time.Timer
	demand demand
	closed bool
}

// spare is a place for a future session: a volume, and a container for each image.
type spare struct {
	*Place     // its record lists the settings of its containers by their names
	Lock       *state.Lock
	containers map[runs.Language]*kernel.Container // by the languages that name them
	Growing    bool                                // a container comes up in it; under the spares' lock, as the containers
}

const (
	// SparePrefix begins the id of a spare.
	SparePrefix = "spare-"
	// QuietTime is the pause after the beginning of a session before a spare is made.
	QuietTime = time.Second
	// spareTakeOver bounds a waiting spare's answer: a new container comes up in less.
	spareTakeOver = 5 * time.Second
	// SweepLook is how long a sweep may look at a waiting spare.
	SweepLook = time.Second
)

// most is the number of spares for a language. The caller holds p.Mu.
func (p *spares) most(language runs.Language) int {
	most := p.config.Spares
	if slices.Contains(p.config.Prewarm, language) {
		most = max(1, most)
	}
	if most == 0 {
		return 0
	}
	return max(most, min(p.demand.largest(time.Now()), int(p.config.SparesBytes/SpareBytes)))
}

// pause is the time without a beginning session after which spares for a language are made. In a burst it is short once half of
// them are taken: before that, making one only slows the sessions that begin. The caller holds p.Mu.
func (p *spares) pause(language runs.Language) time.Duration {
	if p.demand.burst(time.Now()) > 1 && 2*len(p.Ready) <= p.most(language) {
		return burstPause
	}
	return QuietTime
}

// Use notes that a session uses a language. Missing spares are made when no other session begins for a while.
func (p *spares) Use(language runs.Language) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if _, on := p.config.Kernels[language]; !on || p.closed || p.config.Visit || p.most(language) == 0 {
		return
	}
	if !slices.Contains(p.wanted, language) {
		p.wanted = append(p.wanted, language)
		for _, sp := range p.Ready {
			sp.prepare(language)
		}
	}
	p.demand.note(time.Now())
	if p.quiet == nil {
		p.quiet = time.AfterFunc(QuietTime, p.onQuiet)
	}
	p.quiet.Reset(p.pause(language))
}

// prepare starts a language's interpreter in the container of a spare, if it is there.
func (sp *spare) prepare(language runs.Language) {
	if c := sp.containers[sp.Config.ContainerOf(language)[0]]; c != nil {
		c.Prepare(language)
	}
}

func (p *spares) onQuiet() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	switch {
	case p.closed:
	case p.supply.Starts.Taken() > 0:
		p.quiet.Reset(burstPause)
	default:
		p.working.Go(p.fill)
	}
}

// Prewarm makes spares of languages before their first use.
func (p *spares) Prewarm(languages []runs.Language) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.wanted = append(p.wanted, languages...); len(languages) > 0 && !p.closed {
		p.working.Go(p.fill)
	}
}

func (p *spares) fill() {
	p.filling.Lock()
	defer p.filling.Unlock()
	for p.supply.Starts.Taken() == 0 { // a session that waits comes first, and then asks again
		sp, language, err := p.missing()
		if err == nil && sp != nil {
			err = p.grow(sp, language)
		}
		if err != nil {
			p.config.Logger.Warn("container kept ready", "language", language, "error", err)
		}
		if err != nil || sp == nil {
			return
		}
	}
}

// missing returns the next spare to make a container in; nil: none is missing.
func (p *spares) missing() (*spare, runs.Language, error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, language := range p.wanted {
		lacking := func(sp *spare) bool { return sp.containers[p.config.ContainerOf(language)[0]] == nil }
		switch i := slices.IndexFunc(p.Ready, lacking); {
		case p.closed:
		case i >= 0:
			p.Ready[i].Growing = true
			return p.Ready[i], language, nil
		case len(p.Ready) < p.most(language):
			sp, err := p.open()
			return sp, language, err
		}
	}
	return nil, "", nil
}

// open makes a spare without anything on the engine. The caller holds p.Mu.
func (p *spares) open() (*spare, error) {
	id := state.NewID(SparePrefix)
	lock, err := state.Take(p.config.StateDir, id)
	if err != nil {
		return nil, err
	}
	if err := lock.Drop(); err != nil {
		lock.Discard()
		return nil, err
	}
	sp := p.newSpare(id, lock)
	sp.record = state.NewRecord()
	sp.token = sp.record.Token
	sp.trust()
	sp.Growing = true
	p.Ready = append(p.Ready, sp)
	return sp, nil
}

func (p *spares) newSpare(id string, lock *state.Lock) *spare {
	return &spare{
		Place: &Place{ID: id, Config: p.config, Supply: p.supply, Limits: &runs.Limits{Rules: &p.config.Rules}, Ctx: p.ctx},
		Lock:  lock, containers: make(map[runs.Language]*kernel.Container),
	}
}

// grow makes a container in a spare, with the interpreters that sessions used. If that fails, it tries again only after the next
// session got a container.
func (p *spares) grow(sp *spare, language runs.Language) error {
	languages := sp.Config.ContainerOf(language)
	c, key, err := sp.start(languages, language, sp.Config.Kernels[language])
	p.Mu.Lock()
	sp.Growing = false
	if name := languages[0]; err == nil {
		sp.containers[name], sp.record.Settings[string(name)] = c, key
		for _, wanted := range p.wanted {
			if wanted != language {
				sp.prepare(wanted)
			}
		}
	} else {
		p.wanted = slices.DeleteFunc(p.wanted, func(l runs.Language) bool { return l == language })
	}
	lost := len(sp.containers) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(sp.containers)), func(c *kernel.Container) bool { return !c.Alive() })
	p.Mu.Unlock()
	if lost {
		p.lose(sp)
	}
	if err != nil {
		return err
	}
	p.config.Logger.Debug("container kept ready", "place", sp.ID, "container", languages[0])
	go func() {
		<-c.Dead()
		p.lose(sp)
	}()
	return nil
}

// start makes a container without anything of a session.
func (sp *spare) start(languages []runs.Language, first runs.Language, setting KernelConfig) (c *kernel.Container, key string, err error) {
	image, err := sp.Image(setting)
	if err != nil {
		return nil, "", err
	}
	if err := sp.Config.checkMounts(); err != nil {
		return nil, "", err
	}
	leave, err := sp.Supply.Starts.Take(sp.Ctx, SparePrefix)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sp.Config.StartTimeout)
	defer cancel()
	proc, err := sp.Config.Engine.Start(ctx, sp.Spec(languages, first, image))
	leave()
	if err != nil {
		return nil, "", err
	}
	message := sp.first(languages, first, slices.Contains(sp.Config.Prewarm, first))
	message.Spare, message.Env, message.Trust, message.WayOut = true, nil, "", 0
	return sp.speak(proc, languages, message), sp.spareKey(languages, image), nil
}

// speak begins the exchange with the supervisor of a spare. Nobody takes its streams before it is bound.
func (sp *spare) speak(proc engine.Process, languages []runs.Language, first any) *kernel.Container {
	c := kernel.NewContainer(proc, languages, kernel.Options{
		Limits: sp.Config.wireLimits(), Logger: sp.Config.Logger.With("place", sp.ID, "container", languages[0]), Spare: true,
	})
	c.Begin(first)
	return c
}

// take returns a spare with a live container of this name, made with the settings of key; nil: there is none.
func (p *spares) take(name runs.Language, key string) *spare {
	p.Mu.Lock()
	i := slices.IndexFunc(p.Ready, func(sp *spare) bool {
		c := sp.containers[name]
		return !sp.Growing && c != nil && c.Alive() && sp.record.Settings[string(name)] == key
	})
	if i >= 0 {
		sp := p.Ready[i]
		p.Ready = slices.Delete(p.Ready, i, i+1)
		p.Mu.Unlock()
		return sp
	}
	looks := !p.closed && !p.config.Visit && p.most(name) > 0
	p.Mu.Unlock()
	if !looks {
		return nil
	}
	for _, id := range WaitingSpares(p.config.StateDir) {
		if sp, err := p.takeOver(id, name, key); sp != nil || err != nil {
			return sp // if one does not answer the engine may hang, and a caller waits
		}
	}
	return nil
}

// WaitingSpares returns the spares of earlier servers.
func WaitingSpares(stateDir string) []string {
	return slices.DeleteFunc(state.IDs(stateDir), func(id string) bool { return !IsSpare(id) || !state.Waits(stateDir, id) })
}

// DropSpares lets the next sweep remove the waiting spares.
func DropSpares(stateDir string) {
	for _, id := range WaitingSpares(stateDir) {
		if lock, err := state.Take(stateDir, id); err == nil {
			_ = lock.Drop()
			lock.Release()
		}
	}
}

// takeOver returns an earlier server's spare, if it fits. It leaves a spare that does not answer to a sweep; the error reports
// that it did not answer in time.
func (p *spares) takeOver(id string, name runs.Language, key string) (*spare, error) {
	lock, err := state.Take(p.config.StateDir, id)
	for began := time.Now(); errors.Is(err, state.ErrLocked) && state.Waits(p.config.StateDir, id) && time.Since(began) < SweepLook; {
		time.Sleep(SweepLook / 100) // a sweep looks at it; another server would mark it as its own
		lock, err = state.Take(p.config.StateDir, id)
	}
	if err != nil {
		return nil, nil
	}
	sp := p.newSpare(id, lock)
	sp.record = state.LoadRecord(p.config.StateDir, id)
	if !lock.Waits() || sp.record == nil || sp.record.Settings[string(name)] != key {
		if p.config.Engine.Abilities().OneContainer && lock.Waits() { // a pod, which no other server is to take
			p.giveUp(sp)
		} else {
			lock.Unlock()
		}
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(p.config.StartTimeout, spareTakeOver))
	defer cancel()
	_ = lock.Drop()
	proc, err := sp.Join(ctx, name)
	if err == nil {
		c := sp.speak(proc, sp.Config.ContainerOf(name), protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: sp.record.Token})
		if err = c.AwaitAttached(ctx); err == nil {
			sp.containers[name] = c
			return sp, nil
		}
		c.Close()
	}
	p.config.Logger.Debug("take over", "place", id, "container", name, "error", err)
	lock.Release()
	return nil, ctx.Err()
}

// lose removes a spare after the end of its container, unless it was taken, or another container comes up in it: grow calls it again
// then. When the server ends, close does that.
func (p *spares) lose(sp *spare) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if i := slices.Index(p.Ready, sp); i >= 0 && !p.closed && !sp.Growing {
		p.Ready = slices.Delete(p.Ready, i, i+1)
		p.discard(sp)
	}
}

// giveUp is discard of a spare that was taken.
func (p *spares) giveUp(sp *spare) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.discard(sp)
}

// discard removes a spare that is no longer in p.Ready, unless the server ends: then a sweep does that. The caller holds p.Mu.
func (p *spares) discard(sp *spare) {
	if p.closed {
		sp.Lock.Release()
		return
	}
	p.working.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), SweepTimeout)
		defer cancel()
		p.drop(ctx, sp)
	})
}

// drop removes a spare that nobody else holds, and reports whether it could: a sweep removes the rest.
func (p *spares) drop(ctx context.Context, sp *spare) bool {
	err := p.config.Engine.Remove(ctx, sp.names(), []string{sp.volumeName()})
	sp.forget()
	if err != nil {
		p.config.Logger.Warn("container kept ready", "place", sp.ID, "error", err)
		sp.Lock.Release()
		return false
	}
	sp.Lock.Remove()
	return true
}

// forget drops the egress state of a spare.
func (sp *spare) forget() {
	if sp.Config.WayOut != nil {
		sp.Config.WayOut.Forget(sp.ID)
	}
}

// Shrink discards the spares that no burst asks for any more, the oldest first.
func (p *spares) Shrink() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	most := p.config.Spares
	for _, language := range p.wanted {
		most = max(most, p.most(language))
	}
	for len(p.Ready) > most && !p.Ready[0].Growing {
		p.discard(p.Ready[0])
		p.Ready = p.Ready[1:]
	}
}

// Ping keeps prewarmed spares from ending as idle.
func (p *spares) Ping(n int) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, sp := range p.Ready {
		for _, c := range sp.containers {
			if len(p.config.Prewarm) > 0 {
				c.Ping(n)
			}
		}
	}
}

// Close leaves spares to later servers, unless enough wait for them already, and removes the rest. It reports whether it could.
func (p *spares) Close(ctx context.Context) bool {
	p.Mu.Lock()
	p.closed = true
	if p.quiet != nil {
		p.quiet.Stop()
	}
	p.Mu.Unlock()
	p.filling.Lock() // a container that comes up now is ready then
	defer p.filling.Unlock()
	p.Mu.Lock()
	ready := p.Ready
	p.Ready = nil
	p.Mu.Unlock()
	done := true
	for _, sp := range ready {
		if !sp.lives() || len(WaitingSpares(p.config.StateDir)) >= p.config.Spares || sp.leave() != nil {
			done = p.drop(ctx, sp) && done
		}
	}
	return done
}

// lives reports whether a spare has containers, and all of them go on.
func (sp *spare) lives() bool {
	for _, c := range sp.containers {
		if !c.Alive() {
			return false
		}
	}
	return len(sp.containers) > 0
}

// leave marks a spare as waiting for a later server.
func (sp *spare) leave() error {
	if err := sp.record.Save(sp.Config.StateDir, sp.ID); err != nil {
		return err
	}
	if err := sp.Lock.Wait(); err != nil {
		return err
	}
	for _, c := range sp.containers {
		c.Close()
	}
	sp.forget()
	sp.Lock.Release()
	return nil
}

// SweepTimeout bounds the engine calls that remove something.
const SweepTimeout = 60 * time.Second
