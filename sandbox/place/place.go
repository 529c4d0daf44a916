// Package place keeps what a session has on the engine: a volume and containers, by names and labels of its own, and the settings that
// they were made with. Spares are places that no session has yet.
package place

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Place manages one session's volume and containers, one an image, on the engine, and the settings that they were made with,
// which a named session records for later servers.
type Place struct {
	ID     string
	Named  bool
	Config *Config
	Supply *Supply
	Limits *runs.Limits
	Ctx    context.Context   // the session's
	Note   func(text string) // for the next run of each language
	Lost   func()            // notes that the files are gone
	Out    *kernel.Conns     // of all containers

	certificates string      // trusted by the code beside those of the image, in PEM; set before the session is open
	resumed      atomic.Bool // an earlier server left files, and maybe containers, under this id
	tried        atomic.Bool // the session asked for a container

	mu      sync.Mutex    // one engine call at a time
	spareID string        // the id on the engine, if the session took a spare; empty: id. Under mu, or before the session is open
	record  *state.Record // of a named session
	stale   bool          // the volume and containers of this id are an ended session's
	left    string        // its place, if it took a spare
	looked  bool          // for an earlier server's volume, see FilesThere
	files   string        // the result of FilesThere
	token   string        // with which a server reconnects to supervisors after a lost connection; empty: they end with it
	filled  bool          // the session once had a volume, and may expect its files

	asked   []runs.Language                     // names that a container may bear although its start failed
	ready   map[runs.Language]*kernel.Container // unused containers of the spare that became this session's place, by their names
	readyAs map[string]string                   // their settings
}

// At returns the place of a session that is not open here, for its names. spareID: of the spare that it took; empty: it took none.
func At(config *Config, id, spareID string) *Place {
	return &Place{ID: id, spareID: spareID, Config: config}
}

// names ----------------------------------------------------------------------------

// at returns the tenant and id on the engine: a spare belongs to no tenant.
func (p *Place) at() (tenant, id string) {
	if p.spareID != "" {
		return "", p.spareID
	}
	return p.Config.Tenant, p.ID
}

// volumeName returns a name with a part of the host's label, so that servers with separate locks cannot reach each other's
// sessions through equal session ids on one engine.
func (p *Place) volumeName() string {
	host := p.Config.Host
	name := "csm-" + host[:min(6, len(host))]
	tenant, id := p.at()
	if tenant != "" {
		name += tenantMark + tenant
	}
	return name + "-" + id
}

// Name returns the name of the container that is called after a language.
func (p *Place) Name(language runs.Language) string {
	return p.volumeName() + "-" + string(language)
}

// names returns the possible names of the session's containers: by the present images, or by those of an earlier server.
func (p *Place) names() (names []string) {
	var settings map[string]string
	if p.record != nil {
		settings = p.record.Settings
	}
	for _, i := range kernel.Languages {
		_, left := settings[string(i.Language)]
		if left || p.Config.ContainerOf(i.Language)[0] == i.Language {
			names = append(names, p.Name(i.Language))
		}
	}
	return names
}

// The record ----------------------------------------------------------------------

// Begin takes over the record of earlier servers for a session that opens, and returns it; nil: the session keeps none. resumed
// reports that they left the session on purpose.
func (p *Place) Begin(resumed bool) *state.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.Named:
		p.record = p.loadRecord(resumed)
		p.spareID, p.token, p.filled = p.record.Place, p.record.Token, len(p.record.Settings) > 0
	case p.Config.Engine.Abilities().Remote:
		p.token = state.NewRecord().Token
	}
	p.trust()
	if p.Named {
		p.saveRecord()
	}
	p.resumed.Store(resumed)
	return p.record
}

// Look reads the record of a session that another server left, without taking it over.
func (p *Place) Look() {
	p.resumed.Store(true)
	p.record = state.LoadRecord(p.Config.StateDir, p.ID)
	p.Limits.Restore(p.record)
}

// Replaces notes, before the session is open, that it bears the id of an ended one: stale, if the volume and containers are still
// there, in the spare's place that was left; empty: in its own.
func (p *Place) Replaces(stale bool, left string) { p.stale, p.left = stale, left }

// Settings returns by language the keys of the settings with which containers were made; empty: they ended in order. Nil: the session
// keeps no record.
func (p *Place) Settings() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record == nil {
		return nil
	}
	return maps.Clone(p.record.Settings)
}

// loadRecord returns an earlier server's record, or a new one.
func (p *Place) loadRecord(resumed bool) *state.Record {
	var r *state.Record
	if resumed {
		r = state.LoadRecord(p.Config.StateDir, p.ID)
	}
	if r == nil {
		r = state.NewRecord()
	}
	r.Unnamed = false
	if !p.Config.Visit || r.IdleSeconds == 0 {
		own := runs.Limits{Rules: &p.Config.Rules}
		own.Restore(r)
		r.IdleSeconds = own.Ends().IdleTimeout.Seconds()
		r.KeepSeconds = max(p.Config.Keep.Seconds(), r.IdleSeconds)
		r.FreezeSeconds, r.KeepLimit = p.Config.SnapshotTime().Seconds(), cmp.Or(p.Config.QuotaNow().KeepLimit, p.Config.KeepLimit)
	}
	return r
}

// saveRecord writes the record, and warns the session's user if it cannot.
func (p *Place) saveRecord() {
	if err := p.record.Save(p.Config.StateDir, p.ID); err != nil {
		p.Config.Logger.Warn("session record", "session", p.ID, "error", err)
		p.Note("The server cannot write its state directory, whose disk may be full: its successor may not find this session's variables. The files stay.")
	}
}

// rest records that the session has no kernels of the enabled languages, and the size of its history and files; nil: unknown. The
// caller holds p.mu.
func (p *Place) rest(size *int64, history int64) {
	if p.record == nil { // an unnamed session gets one now
		p.record = p.loadRecord(true)
	}
	for language := range p.record.Settings {
		if _, on := p.Config.Kernels[runs.Language(language)]; on {
			p.record.Settings[language] = ""
		}
	}
	p.record.Awake, p.record.HistoryBytes = time.Time{}, history
	if size != nil {
		p.record.SizeBytes = *size
	}
	p.saveRecord()
}

// noteSettings records the settings of a named session's container for a language in it, and the start of its first kernel. If that
// fails, a later server makes a new container.
func (p *Place) noteSettings(language runs.Language, key string, awake time.Time) {
	if p.Named {
		p.takeSettings(language, key, awake)
		p.saveRecord()
	}
}

// NoteEnded records that the container for these languages ended, whatever it was made with.
func (p *Place) NoteEnded(languages []runs.Language) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Named {
		return
	}
	changed := false
	for _, language := range languages {
		if p.record.Settings[string(language)] != "" {
			p.record.Settings[string(language)], changed = "", true
		}
	}
	if changed {
		p.saveRecord()
	}
}

// NoteUse is noteSettings for a further language of a container.
func (p *Place) NoteUse(language runs.Language, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Named && p.record.Settings[string(language)] != key {
		p.noteSettings(language, key, p.record.Awake)
	}
}

// takeSettings is noteSettings without writing.
func (p *Place) takeSettings(language runs.Language, key string, awake time.Time) {
	p.record.Settings[string(language)], p.record.Awake = key, awake
}

// settingsKey returns an equal key for containers with equal image, settings, folders and secrets. Only the user may read it, as
// the token in the same file: a reader could try guesses at a secret. Empty: the session keeps no record.
func (p *Place) settingsKey(languages []runs.Language, image engine.ImageInfo) string {
	if p.record == nil {
		return ""
	}
	c := p.Config
	return engine.Key(p.record.Token, p.shape(languages, image), p.certificates, c.Env, c.VolumeFiles, c.UndoBytes, c.undoMounts(), c.wireLimits(), p.Limits.Ends().IdleTimeout)
}

// spareKey is settingsKey without the parts that a spare gets when it is bound to a session, and with those that matter before
// there are variables.
func (p *Place) spareKey(languages []runs.Language, image engine.ImageInfo) string {
	return engine.Key(p.shape(languages, image), p.Config.VolumeFiles, p.Config.UndoBytes, p.Config.undoMounts(), p.Config.wireLimits(), p.Config.preload(languages))
}

// shape lists the settings of a container, whichever interpreter starts first.
func (p *Place) shape(languages []runs.Language, image engine.ImageInfo) []string {
	return []string{image.ID, p.Config.Engine.Shape(p.Spec(languages, languages[0], image))}
}

var (
	// ErrNeverStarted leaves no container to take over.
	ErrNeverStarted = errors.New("no kernel was started before")
	// ErrOtherSettings forbids to take a container over.
	ErrOtherSettings = errors.New("the container was made with other settings")
)

// Fits reports whether a container for these languages, by the key of its settings, is one that this server would make itself:
// ErrNeverStarted or ErrOtherSettings if not.
func (p *Place) Fits(ctx context.Context, languages []runs.Language, key string) error {
	image, err := p.Supply.Images.get(ctx, p.Config.Engine, p.Config.Kernels[languages[0]].Image)
	if err != nil {
		return err
	}
	switch {
	case key == "":
		return ErrNeverStarted
	case key != p.settingsKey(languages, image):
		return ErrOtherSettings
	}
	return nil
}

// Containers -----------------------------------------------------------------------

// answerTime is how long a call waits for an image, before it answers with the progress.
const answerTime = 18 * time.Second

// Image looks an image up. It makes a missing one if it can, for as long as a call waits.
func (p *Place) Image(setting KernelConfig) (engine.ImageInfo, error) {
	look := func() (engine.ImageInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), p.Config.StartTimeout)
		defer cancel()
		return p.Supply.Images.get(ctx, p.Config.Engine, setting.Image)
	}
	until := time.Now().Add(answerTime)
	image, err := look()
	if setting.MakeImage == nil || !errors.Is(err, engine.ErrImageMissing) {
		return image, err
	}
	if err := setting.MakeImage(p.Ctx, time.Until(until)); err != nil {
		return engine.ImageInfo{}, err
	}
	return look()
}

// Spec returns the engine's request for an unnamed session, by a configuration.
func Spec(config *Config) (engine.Spec, error) {
	p := &Place{ID: "template", Config: config, Limits: &runs.Limits{Rules: &config.Rules}}
	p.trust()
	for _, languages := range config.Containers() {
		return p.Spec(languages, languages[0], engine.ImageInfo{}), nil
	}
	return engine.Spec{}, errNoLanguage
}

var errNoLanguage = errors.New("all languages are switched off")

// EndsMargin is how much longer than its kernels an engine keeps a container that no server asks for.
const EndsMargin = time.Hour

// Spec returns the settings of a container for these languages, in which one's interpreter starts first. Of the image it needs
// the processor, which all images of a volume share, and the list of versions.
func (p *Place) Spec(languages []runs.Language, first runs.Language, image engine.ImageInfo) engine.Spec {
	setting := p.Config.Kernels[languages[0]]
	_, id := p.at()
	// A spare may become a named session's at any time: its kernels count from then on.
	lasts, ends, grace := p.Named || IsSpare(id), time.Duration(0), time.Duration(0)
	if most := p.Limits.Ends(); !IsSpare(id) {
		ends = most.Lifetime + most.IdleTimeout + EndsMargin
	}
	if lasts {
		grace = p.Config.RetireTime()
	}
	labels := map[string]string{
		LabelSession: LabelOf(p.at()), LabelHost: p.Config.Host, LabelLanguage: string(languages[0]),
		LabelNamed: fmt.Sprint(p.Named && p.spareID == ""), // the owner's record says so of a spare's place
	}
	if tenant, _ := p.at(); tenant != "" {
		labels[LabelTenant] = tenant
	}
	if versions := image.Labels[containers.LabelVersions]; versions != "" { // which every list of containers would have whole
		hash := sha256.Sum256([]byte(versions))
		labels[containers.LabelVersions] = hex.EncodeToString(hash[:8])
	}
	return engine.Spec{
		Name:    p.Name(languages[0]),
		Volume:  p.volumeName(),
		Labels:  labels,
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: containers.Supervisor(inOrder(languages, first)...),
		Env:     p.environment(),
		Limits:  p.Limits.Container(),
		Mounts:  p.Config.Mounts,

		VolumeBytes: p.Config.VolumeBytes, Lasts: lasts, Ends: ends, Grace: grace,
	}
}

// inOrder returns the names of languages, one of them first.
func inOrder(languages []runs.Language, first runs.Language) []string {
	names := []string{string(first)}
	for _, language := range languages {
		if language != first {
			names = append(names, string(language))
		}
	}
	return names
}

// first returns a new container's first message to the supervisor. warm: a kernel of the first language is made ready before a run
// asks for it.
func (p *Place) first(languages []runs.Language, first runs.Language, warm bool) protocol.Init {
	ready := []string{}
	if warm {
		ready = append(ready, string(first))
	}
	limits := p.Config.wireLimits()
	onEOF, freezeBytes := "exit", int64(0)
	if p.token != "" {
		onEOF = "wait"
	}
	if p.Named {
		freezeBytes = p.Config.FreezeBytes
	}
	memory := p.Limits.Container().MemoryBytes
	return protocol.Init{
		MemoryBytes: memory, FreezeBytes: freezeBytes, FreezeSeconds: int(p.Config.FreezeTime.Seconds()),
		Twins: mostTwins, TwinBytes: memory / twinShare, SnapshotBytes: min(p.Config.FreezeBytes, snapshotBytes),
		WayOut: p.outPort(), Trust: p.certificates,
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, StateDir: engine.StateDir, Env: p.Config.Env, Preload: p.Config.preload(languages), Warm: ready,
		IdleSeconds: int64(p.Limits.Ends().IdleTimeout.Seconds()), OnEOF: onEOF, Token: p.token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: p.Config.VolumeBytes, VolumeFiles: p.Config.VolumeFiles, UndoBytes: p.Config.UndoBytes, UndoMounts: p.Config.undoMounts(),
	}
}

// Opening asks for a container of a session. Its First language's interpreter starts first; Warm: before a run asks for it.
type Opening struct {
	Languages  []runs.Language
	First      runs.Language
	Image      engine.ImageInfo
	Warm       bool
	MayBeThere bool // the session had a container of this name
	Uses       *runs.Usage
}

// Start makes a container and sends it its settings, whose key it returns. The session can be closed between two tries. The error is
// a fault, except for the cause of that.
func (p *Place) Start(o Opening) (c *kernel.Container, key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := context.Cause(p.Ctx); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Config.StartTimeout)
	defer cancel()
	p.tried.Store(true)
	name, setting, stale := o.Languages[0], p.Config.Kernels[o.First], p.stale
	failed := func(err error) (*kernel.Container, string, error) {
		if !errors.Is(err, engine.ErrPreparing) { // then nothing bears its name, and the image stays
			p.Supply.Images.forget(setting.Image) // looking for it starts a stopped machine of the engine
		}
		return nil, "", Fault(p.Config.Engine, err, o.First, setting)
	}
	if err := p.Config.checkMounts(); err != nil {
		return failed(err)
	}
	if err := p.makeRoom(ctx, name, o.MayBeThere || slices.Contains(p.asked, name)); err != nil {
		return failed(err)
	}
	if stale { // from now on the files are this session's own
		if err := o.Uses.Locked(o.Uses.Lock.Keep); err != nil {
			p.Config.Logger.Warn("session lock", "session", p.ID, "error", err)
		}
	}
	unsettle := p.Limits.Settle(p.record)
	proc, err := p.Config.Engine.Start(ctx, p.Spec(o.Languages, o.First, o.Image))
	if !errors.Is(err, engine.ErrPreparing) {
		p.asked = append(p.asked, name)
	}
	if err != nil {
		unsettle()
		return failed(err)
	}
	c = kernel.NewContainer(proc, o.Languages, p.Conversation(name))
	c.Begin(p.first(o.Languages, o.First, o.Warm))
	p.noteVolume(proc)
	key = p.settingsKey(o.Languages, o.Image)
	p.noteSettings(o.First, key, o.Uses.Wake()) // while the supervisor comes up
	return c, key, nil
}

// End removes the containers of a session that is over. With keepFiles it records that the session rests, and size of its files; nil:
// unknown. Else it removes the volume too; if it cannot, a sweep does. kept reports whether the files stay: a stale place has none.
func (p *Place) End(ctx context.Context, keepFiles bool, uses *runs.Usage, size *int64) (kept bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept = keepFiles && !p.stale
	var volumes []string
	if !kept {
		volumes = []string{p.volumeName()}
		if err := uses.Lock.Drop(); err != nil {
			p.Config.Logger.Warn("session lock", "session", p.ID, "error", err)
		}
	}
	if p.Used() || p.stale {
		err = p.Config.Engine.Remove(ctx, p.names(), volumes)
	}
	if kept && err == nil {
		p.rest(size, uses.History.Bytes())
	}
	return kept, err
}

// Leave records the sizes of files, nil: unknown, and history for the next server, once a container that starts is up or ctx ends, and
// keeps others from starting until release.
func (p *Place) Leave(ctx context.Context, size *int64, history int64) (release func()) {
	for !p.mu.TryLock() {
		if ctx.Err() != nil {
			return func() {}
		}
		time.Sleep(LeaveTime / 40)
	}
	if size != nil && p.record != nil {
		p.record.SizeBytes, p.record.HistoryBytes = *size, history
		p.saveRecord()
	}
	for _, c := range p.ready {
		c.Close()
	}
	return p.mu.Unlock
}

// makeRoom removes anything with the name of a container: an ended one, a dead server's, or one that an engine did not finish
// starting; or all of a session that was to be removed. The caller holds p.mu.
func (p *Place) makeRoom(ctx context.Context, language runs.Language, mayBeThere bool) error {
	if p.stale {
		for _, place := range slices.Compact([]string{p.spareID, cmp.Or(p.left, p.spareID)}) {
			was := At(p.Config, p.ID, place)
			if err := p.Config.Engine.Remove(ctx, was.names(), []string{was.volumeName()}); err != nil {
				return err
			}
		}
		p.stale = false
	}
	if _, ready := p.readyAs[string(language)]; !mayBeThere && !p.resumed.Load() && !ready {
		return nil
	}
	return p.Config.Engine.Remove(ctx, []string{p.Name(language)}, nil)
}

// Remove removes a container, unless the session ends meanwhile: that removes it too, or another server owns it then.
func (p *Place) Remove(ctx context.Context, language runs.Language) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Ctx.Err() != nil {
		return nil
	}
	return p.Config.Engine.Remove(ctx, []string{p.Name(language)}, nil)
}

// Join starts the program that connects its stdio to process 1's socket in one of the session's containers.
func (p *Place) Join(ctx context.Context, language runs.Language) (engine.Process, error) {
	p.tried.Store(true)
	return p.Exec(ctx, language, p.Config.Kernels[language].Join)
}

// Exec starts a program in one of the session's containers.
func (p *Place) Exec(ctx context.Context, language runs.Language, command []string) (engine.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := context.Cause(p.Ctx); err != nil {
		return nil, err // another server may own the container by now
	}
	return p.Config.Engine.Exec(ctx, p.Name(language), command)
}

// FilesThere returns a phrase, behind a sentence, that a formerly used session's files are there; empty: they are not, or it is
// unknown. If its volume was removed, or its state folder restored without it, the next run of each language reports that. It
// looks once, before anything makes the volume anew.
func (p *Place) FilesThere() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looked || len(p.record.Settings) == 0 { // it never had files
		return p.files
	}
	ctx, cancel := context.WithTimeout(p.Ctx, ListTimeout)
	defer cancel()
	inventory, err := p.Config.Engine.List(ctx, LabelSession, LabelOf(p.at()))
	if err != nil {
		p.Config.Logger.Debug("look for the volume", "session", p.ID, "error", err)
		return ""
	}
	p.looked = true
	if slices.ContainsFunc(inventory.Volumes, func(v engine.Volume) bool { return v.Name == p.volumeName() }) {
		p.files = ". The session's files are there"
	} else {
		p.Lost()
	}
	return p.files
}

// noteVolume records that a container came up, and notes for the next run the engine's report: it made a new volume, so the
// session's files are gone, or it kept a container for them.
func (p *Place) noteVolume(started engine.Started) {
	if started.NewVolume && p.filled {
		p.Lost()
	}
	if started.OtherSettings {
		p.Note("This session stays in a container with the settings that it was made with, because its files are in it: its limits may be smaller than asked for.")
	}
	p.filled = true
}

// HasFiles reports whether the session may have files: false if no container ever came up and none starts now.
func (p *Place) HasFiles() bool {
	if p.resumed.Load() || !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	return p.filled
}

// IsResumed reports whether an earlier server left files, and maybe containers, under the session's id.
func (p *Place) IsResumed() bool { return p.resumed.Load() }

// Outlives reports whether the containers outlive a lost connection.
func (p *Place) Outlives() bool { return p.token != "" }

// Attach returns the first message of a further connection to a container; filesOnly: beside the one of another server.
func (p *Place) Attach(filesOnly bool) protocol.Attach {
	return protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: p.token, FilesOnly: filesOnly}
}

// Used reports whether anything of this session can be on the engine.
func (p *Place) Used() bool { return p.resumed.Load() || p.tried.Load() }

// ListTimeout bounds an engine's list of other servers' sessions.
const ListTimeout = 10 * time.Second

// LeaveTime bounds how long a server at its own end waits for code that it interrupted.
const LeaveTime = 400 * time.Millisecond

// IsSpare reports whether a session's id is a spare's.
func IsSpare(id string) bool { return strings.HasPrefix(id, SparePrefix) }

// spareMark makes a spare's label an impossible session name: a program that does not know spares leaves it alone.
const spareMark = "_"

// tenantMark separates a tenant from an id, in names and in a label, and makes that no session's name either.
const tenantMark = "."

// LabelOf returns the LabelSession for a tenant's id.
func LabelOf(tenant, id string) string {
	switch {
	case tenant != "":
		return tenant + tenantMark + id
	case IsSpare(id):
		return spareMark + id
	}
	return id
}

// IDOf returns the id in a tenant's label.
func IDOf(tenant, label string) string {
	if tenant != "" {
		return strings.TrimPrefix(label, tenant+tenantMark)
	}
	if id := strings.TrimPrefix(label, spareMark); IsSpare(id) {
		return id
	}
	return label
}
