package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// spares keeps spares ready: containers for future sessions of the languages used in this server, as many as the last burst of
// sessions took. They belong to nobody and to no tenant, use the server's own limits, and serve one session each. At its end a server leaves them to the next server of the same
// state folder; they end by themselves if none takes them in the idle time.
type spares struct {
	config  *Config
	supply  *supply
	ctx     context.Context // of the background work
	working *sync.WaitGroup

	filling sync.Mutex // one container comes up at a time

	mu     sync.Mutex
	wanted []Language // in the order of their first uses
	ready  []*spare   // the oldest first
	quiet  *time.Timer
	demand demand
	closed bool
}

// spare is a place for a future session: a volume, and a container for each image.
type spare struct {
	*engineSide // its record lists the settings of its containers by their names
	lock        *state.Lock
	containers  map[Language]*kernel.Container // by the languages that name them
	skills      map[Language]string            // the keys of their skills, by engine.Files.Key
	growing     bool                           // a container comes up in it; under the spares' lock, as the containers
}

const (
	sparePrefix = "spare-"
	// quietTime is the pause after the beginning of a session before a spare is made.
	quietTime = time.Second
	// spareTakeOver bounds a waiting spare's answer: a new container comes up in less.
	spareTakeOver = 5 * time.Second
	// sweepLook is how long a sweep may look at a waiting spare.
	sweepLook = time.Second
)

// most is the number of spares for a language. The caller holds p.mu.
func (p *spares) most(language Language) int {
	most := p.config.Spares
	if slices.Contains(p.config.Prewarm, language) {
		most = max(1, most)
	}
	if most == 0 {
		return 0
	}
	return max(most, min(p.demand.largest(time.Now()), int(p.config.SparesBytes/spareBytes)))
}

// pause is the time without a beginning session after which spares for a language are made. In a burst it is short once half of
// them are taken: before that, making one only slows the sessions that begin. The caller holds p.mu.
func (p *spares) pause(language Language) time.Duration {
	if p.demand.burst(time.Now()) > 1 && 2*len(p.ready) <= p.most(language) {
		return burstPause
	}
	return quietTime
}

// use notes that a session uses a language. Missing spares are made when no other session begins for a while.
func (p *spares) use(language Language) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, on := p.config.Kernels[language]; !on || p.closed || p.config.Visit || p.most(language) == 0 {
		return
	}
	if !slices.Contains(p.wanted, language) {
		p.wanted = append(p.wanted, language)
		for _, sp := range p.ready {
			sp.prepare(language)
		}
	}
	p.demand.note(time.Now())
	if p.quiet == nil {
		p.quiet = time.AfterFunc(quietTime, p.onQuiet)
	}
	p.quiet.Reset(p.pause(language))
}

// prepare starts a language's interpreter in the container of a spare, if it is there.
func (sp *spare) prepare(language Language) {
	if c := sp.containers[sp.config.containerOf(language)[0]]; c != nil {
		c.Prepare(language)
	}
}

func (p *spares) onQuiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case p.supply.starts.Taken() > 0:
		p.quiet.Reset(burstPause)
	default:
		p.working.Go(p.fill)
	}
}

// prewarm makes spares of languages before their first use.
func (p *spares) prewarm(languages []Language) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted = append(p.wanted, languages...); len(languages) > 0 && !p.closed {
		p.working.Go(p.fill)
	}
}

// fill makes the missing spares.
func (p *spares) fill() {
	p.filling.Lock()
	defer p.filling.Unlock()
	p.dropOutdated()
	for p.supply.starts.Taken() == 0 { // a session that waits comes first, and then asks again
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

// dropOutdated discards spares with outdated skills.
func (p *spares) dropOutdated() {
	now := p.config.kernel("").skills.Key()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = slices.DeleteFunc(p.ready, func(sp *spare) bool {
		for _, made := range sp.skills {
			if made != now {
				p.discard(sp)
				return true
			}
		}
		return false
	})
}

// missing returns the next spare to make a container in; nil: none is missing.
func (p *spares) missing() (*spare, Language, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, language := range p.wanted {
		lacking := func(sp *spare) bool { return sp.containers[p.config.containerOf(language)[0]] == nil }
		switch i := slices.IndexFunc(p.ready, lacking); {
		case p.closed:
		case i >= 0:
			p.ready[i].growing = true
			return p.ready[i], language, nil
		case len(p.ready) < p.most(language):
			sp, err := p.open()
			return sp, language, err
		}
	}
	return nil, "", nil
}

// open makes a spare without anything on the engine. The caller holds p.mu.
func (p *spares) open() (*spare, error) {
	id := state.NewID(sparePrefix)
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
	sp.growing = true
	p.ready = append(p.ready, sp)
	return sp, nil
}

func (p *spares) newSpare(id string, lock *state.Lock) *spare {
	return &spare{
		engineSide: &engineSide{id: id, config: p.config, supply: p.supply, limits: &limits{config: p.config}, ctx: p.ctx},
		lock:       lock, containers: make(map[Language]*kernel.Container), skills: make(map[Language]string),
	}
}

// grow makes a container in a spare, with the interpreters that sessions used. If that fails, it tries again only after the next
// session got a container.
func (p *spares) grow(sp *spare, language Language) error {
	languages := sp.config.containerOf(language)
	setting := sp.config.kernel(language)
	c, key, err := sp.start(languages, language, setting)
	p.mu.Lock()
	sp.growing = false
	if name := languages[0]; err == nil {
		sp.containers[name], sp.record.Settings[string(name)], sp.skills[name] = c, key, setting.skills.Key()
		for _, wanted := range p.wanted {
			if wanted != language {
				sp.prepare(wanted)
			}
		}
	} else {
		p.wanted = slices.DeleteFunc(p.wanted, func(l Language) bool { return l == language })
	}
	empty := len(sp.containers) == 0
	p.mu.Unlock()
	if empty {
		p.lose(sp)
	}
	if err != nil {
		return err
	}
	p.config.Logger.Debug("container kept ready", "place", sp.id, "container", languages[0])
	go func() {
		<-c.Dead()
		p.lose(sp)
	}()
	return nil
}

// start makes a container without anything of a session.
func (sp *spare) start(languages []Language, first Language, setting KernelConfig) (c *kernel.Container, key string, err error) {
	image, err := sp.image(setting)
	if err != nil {
		return nil, "", err
	}
	leave, err := sp.supply.starts.Take(sp.ctx, sparePrefix)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sp.config.StartTimeout)
	defer cancel()
	proc, err := sp.config.Engine.Start(ctx, sp.spec(languages, first, image))
	leave()
	if err != nil {
		return nil, "", err
	}
	message := sp.init(languages, first, slices.Contains(sp.config.Prewarm, first))
	message.Spare, message.Env, message.Trust, message.WayOut = true, nil, "", 0
	return sp.speak(proc, languages, message), sp.spareKey(languages, image), nil
}

// speak begins the exchange with the supervisor of a spare. Nobody takes its streams before it is bound.
func (sp *spare) speak(proc engine.Process, languages []Language, first any) *kernel.Container {
	c := kernel.NewContainer(proc, languages, kernel.Options{
		Limits: sp.config.wireLimits(), Logger: sp.config.Logger.With("place", sp.id, "container", languages[0]), Spare: true,
	})
	c.Begin(first)
	return c
}

// take returns a spare with a live container of this name, made with the settings of key; nil: there is none.
func (p *spares) take(name Language, key string) *spare {
	p.mu.Lock()
	i := slices.IndexFunc(p.ready, func(sp *spare) bool {
		c := sp.containers[name]
		return !sp.growing && c != nil && c.Alive() && sp.record.Settings[string(name)] == key
	})
	if i >= 0 {
		sp := p.ready[i]
		p.ready = slices.Delete(p.ready, i, i+1)
		p.mu.Unlock()
		return sp
	}
	looks := !p.closed && !p.config.Visit && p.most(name) > 0
	p.mu.Unlock()
	if !looks {
		return nil
	}
	for _, id := range waitingSpares(p.config.StateDir) {
		if sp, err := p.takeOver(id, name, key); sp != nil || err != nil {
			return sp // if one does not answer the engine may hang, and a caller waits
		}
	}
	return nil
}

// waitingSpares returns the spares of earlier servers.
func waitingSpares(stateDir string) []string {
	return slices.DeleteFunc(state.IDs(stateDir), func(id string) bool { return !isSpare(id) || !state.Waits(stateDir, id) })
}

// DropSpares lets the next sweep remove the waiting spares.
func DropSpares(stateDir string) {
	for _, id := range waitingSpares(stateDir) {
		if lock, err := state.Take(stateDir, id); err == nil {
			_ = lock.Drop()
			lock.Release()
		}
	}
}

// takeOver returns an earlier server's spare, if it fits. It leaves a spare that does not answer to a sweep; the error reports
// that it did not answer in time.
func (p *spares) takeOver(id string, name Language, key string) (*spare, error) {
	lock, err := state.Take(p.config.StateDir, id)
	for began := time.Now(); errors.Is(err, state.ErrLocked) && state.Waits(p.config.StateDir, id) && time.Since(began) < sweepLook; {
		time.Sleep(sweepLook / 100) // a sweep looks at it; another server would mark it as its own
		lock, err = state.Take(p.config.StateDir, id)
	}
	if err != nil {
		return nil, nil
	}
	sp := p.newSpare(id, lock)
	sp.record = state.LoadRecord(p.config.StateDir, id)
	if !lock.Waits() || sp.record == nil || sp.record.Settings[string(name)] != key {
		lock.Unlock()
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(p.config.StartTimeout, spareTakeOver))
	defer cancel()
	_ = lock.Drop()
	proc, err := sp.join(ctx, name)
	if err == nil {
		c := sp.speak(proc, sp.config.containerOf(name), protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: sp.record.Token})
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

// lose removes a spare after the end of its container, unless it was taken. When the server ends, close does that.
func (p *spares) lose(sp *spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.ready, sp); i >= 0 && !p.closed {
		p.ready = slices.Delete(p.ready, i, i+1)
		p.discard(sp)
	}
}

// discard removes a spare that is no longer in p.ready, unless the server ends: then a sweep does that. The caller holds p.mu.
func (p *spares) discard(sp *spare) {
	if p.closed {
		sp.lock.Release()
		return
	}
	p.working.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
		defer cancel()
		p.drop(ctx, sp)
	})
}

// drop removes a spare that nobody else holds, and reports whether it could: a sweep removes the rest.
func (p *spares) drop(ctx context.Context, sp *spare) bool {
	err := p.config.Engine.Remove(ctx, sp.names(), []string{sp.volumeName()})
	sp.forget()
	if err != nil {
		p.config.Logger.Warn("container kept ready", "place", sp.id, "error", err)
		sp.lock.Release()
		return false
	}
	sp.lock.Remove()
	return true
}

// forget drops the egress state of a spare.
func (sp *spare) forget() {
	if sp.config.WayOut != nil {
		sp.config.WayOut.Forget(sp.id)
	}
}

// shrink discards the spares that no burst asks for any more, the oldest first.
func (p *spares) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.config.Spares
	for _, language := range p.wanted {
		most = max(most, p.most(language))
	}
	for len(p.ready) > most && !p.ready[0].growing {
		p.discard(p.ready[0])
		p.ready = p.ready[1:]
	}
}

// ping keeps prewarmed spares from ending as idle.
func (p *spares) ping(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sp := range p.ready {
		for _, c := range sp.containers {
			if len(p.config.Prewarm) > 0 {
				c.Ping(n)
			}
		}
	}
}

// close leaves spares to later servers, unless enough wait for them already, and removes the rest. It reports whether it could.
func (p *spares) close(ctx context.Context) bool {
	p.mu.Lock()
	p.closed = true
	if p.quiet != nil {
		p.quiet.Stop()
	}
	p.mu.Unlock()
	p.filling.Lock() // a container that comes up now is ready then
	defer p.filling.Unlock()
	p.mu.Lock()
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	done := true
	for _, sp := range ready {
		if !sp.lives() || len(waitingSpares(p.config.StateDir)) >= p.config.Spares || sp.leave() != nil {
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
	if err := sp.record.Save(sp.config.StateDir, sp.id); err != nil {
		return err
	}
	if err := sp.lock.Wait(); err != nil {
		return err
	}
	for _, c := range sp.containers {
		c.Close()
	}
	sp.forget()
	sp.lock.Release()
	return nil
}

// sweepTimeout bounds the engine calls that remove something.
const sweepTimeout = 60 * time.Second
