package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// engineSide is what one session has on the engine, a volume and a container for each language, and what they are made
// with, which a named session records for later servers.
type engineSide struct {
	id     string
	place  string // the id that is on the engine, of a spare that it took; empty: id. Under mu, or before the session is open
	named  bool
	config *Config
	limits *limits
	ctx    context.Context   // the session's
	note   func(text string) // for the next run of each language
	lost   func()            // notes so that the files are gone
	out    *outConns         // of all containers

	certificates string      // that the code trusts beside those of the image, in PEM; set before the session is open
	resumed      atomic.Bool // an earlier server left files, and maybe containers, under this id
	tried        atomic.Bool // a container was asked for

	mu     sync.Mutex    // one engine call at a time
	record *state.Record // of a named session
	stale  bool          // what is on the engine under this id is of a session that has ended
	left   string        // the place of that, where it had one
	looked bool          // for the volume that an earlier server left, which filesThere is about
	files  string        // what filesThere says
	token  string        // that supervisors are shown when a connection to them was lost; empty: they end with it
	filled bool          // the session has had a volume, and may expect its files

	ready   map[Language]*kernel // of the spare that became this session's place, which were not used yet
	readyAs map[string]string    // by language, what they were made with
}

// Names ----------------------------------------------------------------------------

// at returns the id that what is on the engine has, and whose it is there: what was kept ready is no tenant's.
func (e *engineSide) at() (tenant, id string) {
	if e.place != "" {
		return "", e.place
	}
	return e.config.Tenant, e.id
}

// volumeName returns a name with a part of the host's label, so that servers that do not share their locks cannot
// reach each other's sessions by using the same session id on one engine.
func (e *engineSide) volumeName() string {
	host := e.config.Host
	name := "csm-" + host[:min(6, len(host))]
	tenant, id := e.at()
	if tenant != "" {
		name += tenantMark + tenant
	}
	return name + "-" + id
}

// name returns the name of a language's container.
func (e *engineSide) name(language Language) string {
	return e.volumeName() + "-" + string(language)
}

// names returns the names that any of the session's containers could have.
func (e *engineSide) names() []string {
	names := make([]string, 0, len(e.config.Kernels))
	for language := range e.config.Kernels {
		names = append(names, e.name(language))
	}
	slices.Sort(names)
	return names
}

// The record ----------------------------------------------------------------------

// begin takes over what earlier servers left of a session that is being opened, and returns its record; nil: it has none.
// resumed reports that they left it on purpose.
func (e *engineSide) begin(resumed bool) *state.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.named:
		e.record = e.loadRecord(resumed)
		e.place, e.token, e.filled = e.record.Place, e.record.Token, len(e.record.Settings) > 0
	case e.config.Engine.Traits().Remote:
		e.token = state.NewRecord().Token
	}
	e.trust()
	if e.named {
		e.saveRecord()
	}
	e.resumed.Store(resumed)
	return e.record
}

// loadRecord returns the record of an earlier server, or a new one.
func (e *engineSide) loadRecord(resumed bool) *state.Record {
	var r *state.Record
	if resumed {
		r = state.LoadRecord(e.config.StateDir, e.id)
	}
	if r == nil {
		r = state.NewRecord()
	}
	r.Unnamed = false
	if !e.config.Visit || r.IdleSeconds == 0 {
		own := limits{config: e.config}
		own.restore(r)
		r.IdleSeconds = own.ends().IdleTimeout.Seconds()
		r.KeepSeconds = max(e.config.Keep.Seconds(), r.IdleSeconds)
		r.FreezeSeconds, r.KeepLimit = e.config.freezeTime().Seconds(), cmp.Or(e.config.quota().KeepLimit, e.config.KeepLimit)
	}
	return r
}

// saveRecord writes the record, and warns the session's user where it cannot.
func (e *engineSide) saveRecord() {
	if err := e.record.Save(e.config.StateDir, e.id); err != nil {
		e.config.Logger.Warn("session record", "session", e.id, "error", err)
		e.note("The server cannot write its state directory, whose disk may be full: its successor may not find this session's variables. The files stay.")
	}
}

// rest records that the session has no kernels of the languages that are on, and what its history and its files take; nil: not
// known. The caller holds e.mu.
func (e *engineSide) rest(size *int64, history int64) {
	if e.record == nil { // of a session without a name, which has one from now on
		e.record = e.loadRecord(true)
	}
	for language := range e.record.Settings {
		if _, on := e.config.Kernels[Language(language)]; on {
			e.record.Settings[language] = ""
		}
	}
	e.record.Awake, e.record.HistoryBytes = time.Time{}, history
	if size != nil {
		e.record.SizeBytes = *size
	}
	e.saveRecord()
}

// slept reports whether the session had a kernel of the language that ended in order.
func (e *engineSide) slept(language Language) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	key, had := e.record.Settings[string(language)]
	return had && key == ""
}

// noteSettings records what a named session's container was made with, and since when it has had any. Where that fails, a later
// server makes a new one.
func (e *engineSide) noteSettings(language Language, setting KernelConfig, image engine.ImageInfo, awake time.Time) {
	if e.named {
		e.takeSettings(language, setting, image, awake)
		e.saveRecord()
	}
}

// takeSettings is noteSettings that writes nothing yet.
func (e *engineSide) takeSettings(language Language, setting KernelConfig, image engine.ImageInfo, awake time.Time) {
	e.record.Settings[string(language)], e.record.Awake = e.settingsKey(language, setting, image), awake
}

// settingsKey returns a key that is the same for containers that were made with the same image, settings, folders and secrets. It is
// for the user's eyes alone, as the token in the same file is: a reader of it could try guesses at a secret.
func (e *engineSide) settingsKey(language Language, setting KernelConfig, image engine.ImageInfo) string {
	c := e.config
	return engine.Key(e.record.Token, e.shape(language, setting, image), e.certificates, c.Env, c.VolumeFiles, c.wireLimits(), e.limits.ends().IdleTimeout)
}

// spareKey is settingsKey without what comes when a container that was kept ready is bound to a session, and with what matters
// before there are variables.
func (e *engineSide) spareKey(language Language, setting KernelConfig, image engine.ImageInfo) string {
	return engine.Key(e.shape(language, setting, image), e.config.VolumeFiles, e.config.wireLimits(), setting.Preload)
}

// shape is what a container is made with.
func (e *engineSide) shape(language Language, setting KernelConfig, image engine.ImageInfo) []string {
	return []string{image.ID, e.config.Engine.Shape(e.spec(language, setting, image))}
}

// fits reports whether a container is one that this server would make itself, by the key of what it was made
// with: errNeverStarted or errOtherSettings where not.
func (e *engineSide) fits(ctx context.Context, language Language, key string) error {
	setting := e.config.kernel(language)
	image, err := e.config.Pool.images.get(ctx, e.config.Engine, setting.Image)
	if err != nil {
		return err
	}
	switch {
	case key == "":
		return errNeverStarted
	case key != e.settingsKey(language, setting, image):
		return errOtherSettings
	}
	return nil
}

// Containers -----------------------------------------------------------------------

// answerTime is how long a call waits for an image, before it answers how far that is.
const answerTime = 18 * time.Second

// image looks an image up, and has it made where it is missing and that is possible, as long as a call waits for that.
func (e *engineSide) image(setting KernelConfig) (engine.ImageInfo, error) {
	look := func() (engine.ImageInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), e.config.StartTimeout)
		defer cancel()
		return e.config.Pool.images.get(ctx, e.config.Engine, setting.Image)
	}
	until := time.Now().Add(answerTime)
	image, err := look()
	if setting.MakeImage == nil || !errors.Is(err, engine.ErrImageMissing) {
		return image, err
	}
	if err := setting.MakeImage(e.ctx, time.Until(until)); err != nil {
		return engine.ImageInfo{}, err
	}
	return look()
}

// spec returns what a container is made with, and what those are made with that an engine makes together with it.
func (e *engineSide) spec(language Language, setting KernelConfig, image engine.ImageInfo) engine.Spec {
	spec := e.ownSpec(language, setting, image)
	for _, other := range e.beside(language) {
		spec.Beside = append(spec.Beside, e.ownSpec(other, e.config.kernel(other), image))
	}
	return spec
}

// Spec returns what an engine is asked for for a session without a name, by a configuration.
func Spec(config *Config) (engine.Spec, error) {
	e := newSession("template", false, nil, config).engine
	e.trust()
	for _, l := range Languages {
		if _, on := config.Kernels[l.Language]; on {
			return e.spec(l.Language, config.kernel(l.Language), engine.ImageInfo{}), nil
		}
	}
	return engine.Spec{}, errNoLanguage
}

var errNoLanguage = errors.New("all languages are switched off")

// beside returns the languages whose containers are made together with one.
func (e *engineSide) beside(language Language) (others []Language) {
	if !e.config.Engine.Traits().Together {
		return nil
	}
	for _, other := range Languages {
		if _, on := e.config.Kernels[other.Language]; on && other.Language != language {
			others = append(others, other.Language)
		}
	}
	return others
}

// endsMargin is how much longer than its kernels an engine keeps what everybody seems to have forgotten.
const endsMargin = time.Hour

// ownSpec is spec of the one container. Of the image it needs no more than the kind of processor, which those of one volume share.
func (e *engineSide) ownSpec(language Language, setting KernelConfig, image engine.ImageInfo) engine.Spec {
	_, id := e.at()
	// A spare may become a named session's, and at any time: its kernels count from then on.
	lasts, ends, grace := e.named || isSpare(id), time.Duration(0), time.Duration(0)
	if most := e.limits.ends(); !isSpare(id) {
		ends = most.Lifetime + most.IdleTimeout + endsMargin
	}
	if lasts {
		grace = e.config.retireTime()
	}
	labels := map[string]string{
		LabelSession: labelOf(e.at()), LabelHost: e.config.Host, LabelLanguage: string(language),
		LabelNamed: fmt.Sprint(e.named && e.place == ""), // of a place the owner's record says it
	}
	if tenant, _ := e.at(); tenant != "" {
		labels[LabelTenant] = tenant
	}
	return engine.Spec{
		Name:    e.name(language),
		Volume:  e.volumeName(),
		Labels:  labels,
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: setting.Command,
		Env:     e.environment(language),
		Limits:  e.limits.container(),
		Mounts:  e.config.Mounts,
		Skills:  setting.skills,

		VolumeBytes: e.config.VolumeBytes, Lasts: lasts, Ends: ends, Grace: grace,
	}
}

// init returns the first message to the supervisor of a new container.
func (e *engineSide) init(language Language, setting KernelConfig, warm bool) protocol.Init {
	limits := e.config.wireLimits()
	onEOF, freezeBytes := "exit", int64(0)
	if e.token != "" {
		onEOF = "wait"
	}
	if e.named {
		freezeBytes = e.config.FreezeBytes
	}
	memory := e.limits.container().MemoryBytes
	return protocol.Init{
		MemoryBytes: memory, FreezeBytes: freezeBytes, FreezeSeconds: int(e.config.FreezeTime.Seconds()),
		Twins: mostTwins, TwinBytes: memory / twinShare,
		WayOut: e.outPort(language), Trust: e.certificates,
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, Env: e.config.Env, Preload: setting.Preload, Warm: warm,
		IdleSeconds: int64(e.limits.ends().IdleTimeout.Seconds()), OnEOF: onEOF, Token: e.token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: e.config.VolumeBytes, VolumeFiles: e.config.VolumeFiles,
	}
}

// makeRoom removes what may still have the name of a container: one that ended, that a dead server left, or whose start an
// engine did not finish; or all of a session that was to be removed. The caller holds e.mu.
func (e *engineSide) makeRoom(ctx context.Context, language Language, mayBeThere bool) error {
	if e.stale {
		for _, place := range slices.Compact([]string{e.place, cmp.Or(e.left, e.place)}) {
			was := &engineSide{id: e.id, place: place, config: e.config}
			if err := e.config.Engine.Remove(ctx, was.names(), []string{was.volumeName()}); err != nil {
				return err
			}
		}
		e.stale = false
	}
	if _, ready := e.readyAs[string(language)]; !mayBeThere && !e.resumed.Load() && !ready {
		return nil
	}
	return e.config.Engine.Remove(ctx, []string{e.name(language)}, nil)
}

// remove removes a container, but not where the session ends meanwhile, with which it goes, or which is another server's then.
func (e *engineSide) remove(ctx context.Context, language Language) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil
	}
	return e.config.Engine.Remove(ctx, []string{e.name(language)}, nil)
}

// join starts what joins its stdio to the socket of process 1 in one of the session's containers.
func (e *engineSide) join(ctx context.Context, language Language) (engine.Process, error) {
	return e.exec(ctx, language, e.config.Kernels[language].Join)
}

// exec starts a program in one of the session's containers.
func (e *engineSide) exec(ctx context.Context, language Language, command []string) (engine.Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := context.Cause(e.ctx); err != nil {
		return nil, err // the container may be another server's by now
	}
	return e.config.Engine.Exec(ctx, e.name(language), command)
}

// filesThere says of a session that was used before that its files are there, behind a sentence; empty: they are not, or it is not
// known. Its volume can have been removed, or a state folder restored without it: the next run of each language is
// told that. It looks once, and has to be called before anything makes the volume anew.
func (e *engineSide) filesThere() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looked || len(e.record.Settings) == 0 { // it never had any
		return e.files
	}
	ctx, cancel := context.WithTimeout(e.ctx, listTimeout)
	defer cancel()
	inventory, err := e.config.Engine.List(ctx, LabelSession, labelOf(e.at()))
	if err != nil {
		e.config.Logger.Debug("look for the volume", "session", e.id, "error", err)
		return ""
	}
	e.looked = true
	if slices.ContainsFunc(inventory.Volumes, func(v engine.Volume) bool { return v.Name == e.volumeName() }) {
		e.files = ". The session's files are there"
	} else {
		e.lost()
	}
	return e.files
}

// noteVolume notes that a container has come up, and for the next run what its engine says of that: it has made the volume, so the
// files that the session had are gone, or it has kept a container for them.
func (e *engineSide) noteVolume(proc engine.Process) {
	if made, ok := proc.(engine.Maker); ok && made.MadeVolume() && e.filled {
		e.lost()
	}
	if kept, ok := proc.(engine.Keeper); ok && kept.KeptOther() {
		e.note("This session stays in a container with the settings that it was made with, because its files are in it: its limits may be smaller than asked for.")
	}
	e.filled = true
}

// hasFiles reports whether the session may have files: not where no container has ever come up, and none does just now.
func (e *engineSide) hasFiles() bool {
	if e.resumed.Load() || !e.mu.TryLock() {
		return true
	}
	defer e.mu.Unlock()
	return e.filled
}

// used reports whether anything of this session can be on the engine.
func (e *engineSide) used() bool { return e.resumed.Load() || e.tried.Load() }

// lock takes mu when it can be had while ctx lasts, and reports whether it was.
func (e *engineSide) lock(ctx context.Context) bool {
	for !e.mu.TryLock() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(leaveTime / 40)
	}
	return true
}
