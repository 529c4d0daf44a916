package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// engineSide manages one session's volume and containers, one an image, on the engine, and the settings that they were made with,
// which a named session records for later servers.
type engineSide struct {
	id     string
	place  string // the id on the engine, if the session took a spare; empty: id. Under mu, or before the session is open
	named  bool
	config *Config
	supply *supply
	limits *limits
	ctx    context.Context   // the session's
	note   func(text string) // for the next run of each language
	lost   func()            // notes that the files are gone
	out    *kernel.Conns     // of all containers

	certificates string      // trusted by the code beside those of the image, in PEM; set before the session is open
	resumed      atomic.Bool // an earlier server left files, and maybe containers, under this id
	tried        atomic.Bool // the session asked for a container

	mu     sync.Mutex    // one engine call at a time
	record *state.Record // of a named session
	stale  bool          // the volume and containers of this id are an ended session's
	left   string        // its place, if it took a spare
	looked bool          // for an earlier server's volume, see filesThere
	files  string        // the result of filesThere
	token  string        // with which a server reconnects to supervisors after a lost connection; empty: they end with it
	filled bool          // the session once had a volume, and may expect its files

	ready   map[Language]*kernel.Container // unused containers of the spare that became this session's place, by their names
	readyAs map[string]string              // their settings
}

// Names ----------------------------------------------------------------------------

// at returns the tenant and id on the engine: a spare belongs to no tenant.
func (e *engineSide) at() (tenant, id string) {
	if e.place != "" {
		return "", e.place
	}
	return e.config.Tenant, e.id
}

// volumeName returns a name with a part of the host's label, so that servers with separate locks cannot reach each other's
// sessions through equal session ids on one engine.
func (e *engineSide) volumeName() string {
	host := e.config.Host
	name := "csm-" + host[:min(6, len(host))]
	tenant, id := e.at()
	if tenant != "" {
		name += tenantMark + tenant
	}
	return name + "-" + id
}

// name returns the name of the container that is called after a language.
func (e *engineSide) name(language Language) string {
	return e.volumeName() + "-" + string(language)
}

// names returns the possible names of the session's containers: those of this version, and of one that made a container for each
// language that the record names.
func (e *engineSide) names() []string {
	var names []string
	for _, languages := range e.config.containers() {
		names = append(names, e.name(languages[0]))
	}
	if e.record != nil {
		for language := range e.record.Settings {
			names = append(names, e.name(Language(language)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The record ----------------------------------------------------------------------

// begin takes over the record of earlier servers for a session that opens, and returns it; nil: the session keeps none. resumed
// reports that they left the session on purpose.
func (e *engineSide) begin(resumed bool) *state.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.named:
		e.record = e.loadRecord(resumed)
		e.place, e.token, e.filled = e.record.Place, e.record.Token, len(e.record.Settings) > 0
	case e.config.Engine.Abilities().Remote:
		e.token = state.NewRecord().Token
	}
	e.trust()
	if e.named {
		e.saveRecord()
	}
	e.resumed.Store(resumed)
	return e.record
}

// loadRecord returns an earlier server's record, or a new one.
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
		r.FreezeSeconds, r.KeepLimit = e.config.freezeLimit().Seconds(), cmp.Or(e.config.quota().KeepLimit, e.config.KeepLimit)
	}
	return r
}

// saveRecord writes the record, and warns the session's user if it cannot.
func (e *engineSide) saveRecord() {
	if err := e.record.Save(e.config.StateDir, e.id); err != nil {
		e.config.Logger.Warn("session record", "session", e.id, "error", err)
		e.note("The server cannot write its state directory, whose disk may be full: its successor may not find this session's variables. The files stay.")
	}
}

// rest records that the session has no kernels of the enabled languages, and the size of its history and files; nil: unknown. The
// caller holds e.mu.
func (e *engineSide) rest(size *int64, history int64) {
	if e.record == nil { // an unnamed session gets one now
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

// noteSettings records the settings of a named session's container for a language in it, and the start of its first kernel. If that
// fails, a later server makes a new container.
func (e *engineSide) noteSettings(language Language, key string, awake time.Time) {
	if e.named {
		e.takeSettings(language, key, awake)
		e.saveRecord()
	}
}

// noteEnded records that the container for these languages ended, whatever it was made with.
func (e *engineSide) noteEnded(languages []Language) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.named {
		return
	}
	changed := false
	for _, language := range languages {
		if e.record.Settings[string(language)] != "" {
			e.record.Settings[string(language)], changed = "", true
		}
	}
	if changed {
		e.saveRecord()
	}
}

// noteUse is noteSettings for a further language of a container.
func (e *engineSide) noteUse(language Language, key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.named && e.record.Settings[string(language)] != key {
		e.noteSettings(language, key, e.record.Awake)
	}
}

// takeSettings is noteSettings without writing.
func (e *engineSide) takeSettings(language Language, key string, awake time.Time) {
	e.record.Settings[string(language)], e.record.Awake = key, awake
}

// settingsKey returns an equal key for containers with equal image, settings, folders and secrets. Only the user may read it, as
// the token in the same file: a reader could try guesses at a secret. Empty: the session keeps no record.
func (e *engineSide) settingsKey(languages []Language, image engine.ImageInfo) string {
	if e.record == nil {
		return ""
	}
	c := e.config
	return engine.Key(e.record.Token, e.shape(languages, image), e.certificates, c.Env, c.VolumeFiles, c.UndoBytes, c.wireLimits(), e.limits.ends().IdleTimeout)
}

// spareKey is settingsKey without the parts that a spare gets when it is bound to a session, and with those that matter before
// there are variables.
func (e *engineSide) spareKey(languages []Language, image engine.ImageInfo) string {
	return engine.Key(e.shape(languages, image), e.config.VolumeFiles, e.config.UndoBytes, e.config.wireLimits(), e.config.preload(languages))
}

// shape lists the settings of a container, whichever interpreter starts first.
func (e *engineSide) shape(languages []Language, image engine.ImageInfo) []string {
	return []string{image.ID, e.config.Engine.Shape(e.spec(languages, languages[0], image))}
}

var (
	errNeverStarted  = errors.New("no kernel was started before")
	errOtherSettings = errors.New("the container was made with other settings")
)

// fits reports whether a container for these languages, by the key of its settings, is one that this server would make itself:
// errNeverStarted or errOtherSettings if not.
func (e *engineSide) fits(ctx context.Context, languages []Language, key string) error {
	image, err := e.supply.images.get(ctx, e.config.Engine, e.config.Kernels[languages[0]].Image)
	if err != nil {
		return err
	}
	switch {
	case key == "":
		return errNeverStarted
	case key != e.settingsKey(languages, image):
		return errOtherSettings
	}
	return nil
}

// Containers -----------------------------------------------------------------------

// answerTime is how long a call waits for an image, before it answers with the progress.
const answerTime = 18 * time.Second

// image looks an image up. It makes a missing one if it can, for as long as a call waits.
func (e *engineSide) image(setting KernelConfig) (engine.ImageInfo, error) {
	look := func() (engine.ImageInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), e.config.StartTimeout)
		defer cancel()
		return e.supply.images.get(ctx, e.config.Engine, setting.Image)
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

// Spec returns the engine's request for an unnamed session, by a configuration.
func Spec(config *Config) (engine.Spec, error) {
	e := &engineSide{id: "template", config: config, limits: &limits{config: config}}
	e.trust()
	for _, languages := range config.containers() {
		return e.spec(languages, languages[0], engine.ImageInfo{}), nil
	}
	return engine.Spec{}, errNoLanguage
}

var errNoLanguage = errors.New("all languages are switched off")

// endsMargin is how much longer than its kernels an engine keeps a container that no server asks for.
const endsMargin = time.Hour

// spec returns the settings of a container for these languages, in which one's interpreter starts first. Of the image it needs only
// the processor, which all images of a volume share.
func (e *engineSide) spec(languages []Language, first Language, image engine.ImageInfo) engine.Spec {
	setting := e.config.kernel(languages[0])
	_, id := e.at()
	// A spare may become a named session's at any time: its kernels count from then on.
	lasts, ends, grace := e.named || isSpare(id), time.Duration(0), time.Duration(0)
	if most := e.limits.ends(); !isSpare(id) {
		ends = most.Lifetime + most.IdleTimeout + endsMargin
	}
	if lasts {
		grace = e.config.retireTime()
	}
	labels := map[string]string{
		LabelSession: labelOf(e.at()), LabelHost: e.config.Host, LabelLanguage: string(languages[0]),
		LabelNamed: fmt.Sprint(e.named && e.place == ""), // the owner's record says so of a spare's place
	}
	if tenant, _ := e.at(); tenant != "" {
		labels[LabelTenant] = tenant
	}
	return engine.Spec{
		Name:    e.name(languages[0]),
		Volume:  e.volumeName(),
		Labels:  labels,
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: containers.Supervisor(inOrder(languages, first)...),
		Env:     e.environment(),
		Limits:  e.limits.container(),
		Mounts:  e.config.Mounts,
		Skills:  setting.skills,

		VolumeBytes: e.config.VolumeBytes, Lasts: lasts, Ends: ends, Grace: grace,
	}
}

// inOrder returns the names of languages, one of them first.
func inOrder(languages []Language, first Language) []string {
	names := []string{string(first)}
	for _, language := range languages {
		if language != first {
			names = append(names, string(language))
		}
	}
	return names
}

// init returns a new container's first message to the supervisor. warm: a kernel of the first language is made ready before a run
// asks for it.
func (e *engineSide) init(languages []Language, first Language, warm bool) protocol.Init {
	ready := []string{}
	if warm {
		ready = append(ready, string(first))
	}
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
		WayOut: e.outPort(), Trust: e.certificates,
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, Env: e.config.Env, Preload: e.config.preload(languages), Warm: ready,
		IdleSeconds: int64(e.limits.ends().IdleTimeout.Seconds()), OnEOF: onEOF, Token: e.token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: e.config.VolumeBytes, VolumeFiles: e.config.VolumeFiles, UndoBytes: e.config.UndoBytes,
	}
}

// makeRoom removes anything with the name of a container: an ended one, a dead server's, or one that an engine did not finish
// starting; or all of a session that was to be removed. The caller holds e.mu.
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

// remove removes a container, unless the session ends meanwhile: that removes it too, or another server owns it then.
func (e *engineSide) remove(ctx context.Context, language Language) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil
	}
	return e.config.Engine.Remove(ctx, []string{e.name(language)}, nil)
}

// join starts the program that connects its stdio to process 1's socket in one of the session's containers.
func (e *engineSide) join(ctx context.Context, language Language) (engine.Process, error) {
	return e.exec(ctx, language, e.config.Kernels[language].Join)
}

// exec starts a program in one of the session's containers.
func (e *engineSide) exec(ctx context.Context, language Language, command []string) (engine.Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := context.Cause(e.ctx); err != nil {
		return nil, err // another server may own the container by now
	}
	return e.config.Engine.Exec(ctx, e.name(language), command)
}

// filesThere returns a phrase, behind a sentence, that a formerly used session's files are there; empty: they are not, or it is
// unknown. If its volume was removed, or its state folder restored without it, the next run of each language reports that. It
// looks once, before anything makes the volume anew.
func (e *engineSide) filesThere() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looked || len(e.record.Settings) == 0 { // it never had files
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

// noteVolume records that a container came up, and notes for the next run the engine's report: it made a new volume, so the
// session's files are gone, or it kept a container for them.
func (e *engineSide) noteVolume(started engine.Started) {
	if started.NewVolume && e.filled {
		e.lost()
	}
	if started.OtherSettings {
		e.note("This session stays in a container with the settings that it was made with, because its files are in it: its limits may be smaller than asked for.")
	}
	e.filled = true
}

// hasFiles reports whether the session may have files: false if no container ever came up and none starts now.
func (e *engineSide) hasFiles() bool {
	if e.resumed.Load() || !e.mu.TryLock() {
		return true
	}
	defer e.mu.Unlock()
	return e.filled
}

// used reports whether anything of this session can be on the engine.
func (e *engineSide) used() bool { return e.resumed.Load() || e.tried.Load() }

// lock takes mu if it can before ctx ends, and reports whether it did.
func (e *engineSide) lock(ctx context.Context) bool {
	for !e.mu.TryLock() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(leaveTime / 40)
	}
	return true
}

// listTimeout bounds an engine's list of other servers' sessions.
const listTimeout = 10 * time.Second

// leaveTime bounds how long a server at its own end waits for code that it interrupted.
const leaveTime = 400 * time.Millisecond

// isSpare reports whether a session's id is a spare's.
func isSpare(id string) bool { return strings.HasPrefix(id, sparePrefix) }

// spareMark makes a spare's label an impossible session name: a program that does not know spares leaves it alone.
const spareMark = "_"

// tenantMark separates a tenant from an id, in names and in a label, and makes that no session's name either.
const tenantMark = "."

// labelOf returns the LabelSession for a tenant's id.
func labelOf(tenant, id string) string {
	switch {
	case tenant != "":
		return tenant + tenantMark + id
	case isSpare(id):
		return spareMark + id
	}
	return id
}

// idOf returns the id in a tenant's label.
func idOf(tenant, label string) string {
	if tenant != "" {
		return strings.TrimPrefix(label, tenant+tenantMark)
	}
	if id := strings.TrimPrefix(label, spareMark); isSpare(id) {
		return id
	}
	return label
}
