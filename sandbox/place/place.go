// Package place keeps what a session has on the engine: a volume and containers, by names and labels of its own, and the settings that
// they were made with. Spares are places that no session has yet.
package place

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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Place manages one session's volume and containers, one an image, on the engine, and the settings that they were made with,
// which a named session records for later servers.
type Place struct {
	ID      string
	SpareID string // the id on the engine, if the session took a spare; empty: id. Under mu, or before the session is open
	Named   bool
	Config  *runs.Config
	Supply  *Supply
	Limits  *runs.Limits
	Ctx     context.Context   // the session's
	Note    func(text string) // for the next run of each language
	Lost    func()            // notes that the files are gone
	Out     *kernel.Conns     // of all containers

	certificates string      // trusted by the code beside those of the image, in PEM; set before the session is open
	Resumed      atomic.Bool // an earlier server left files, and maybe containers, under this id
	Tried        atomic.Bool // the session asked for a container

	Mu     sync.Mutex    // one engine call at a time
	Record *state.Record // of a named session
	Stale  bool          // the volume and containers of this id are an ended session's
	Left   string        // its place, if it took a spare
	looked bool          // for an earlier server's volume, see FilesThere
	files  string        // the result of FilesThere
	Token  string        // with which a server reconnects to supervisors after a lost connection; empty: they end with it
	filled bool          // the session once had a volume, and may expect its files

	Ready   map[runs.Language]*kernel.Container // unused containers of the spare that became this session's place, by their names
	ReadyAs map[string]string                   // their settings
}

// Names ----------------------------------------------------------------------------

// at returns the tenant and id on the engine: a spare belongs to no tenant.
func (e *Place) at() (tenant, id string) {
	if e.SpareID != "" {
		return "", e.SpareID
	}
	return e.Config.Tenant, e.ID
}

// VolumeName returns a name with a part of the host's label, so that servers with separate locks cannot reach each other's
// sessions through equal session ids on one engine.
func (e *Place) VolumeName() string {
	host := e.Config.Host
	name := "csm-" + host[:min(6, len(host))]
	tenant, id := e.at()
	if tenant != "" {
		name += tenantMark + tenant
	}
	return name + "-" + id
}

// Name returns the name of the container that is called after a language.
func (e *Place) Name(language runs.Language) string {
	return e.VolumeName() + "-" + string(language)
}

// Names returns the possible names of the session's containers: those of this version, and of one that made a container for each
// language that the record names.
func (e *Place) Names() []string {
	var names []string
	for _, languages := range e.Config.Containers() {
		names = append(names, e.Name(languages[0]))
	}
	if e.Record != nil {
		for language := range e.Record.Settings {
			names = append(names, e.Name(runs.Language(language)))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The record ----------------------------------------------------------------------

// Begin takes over the record of earlier servers for a session that opens, and returns it; nil: the session keeps none. resumed
// reports that they left the session on purpose.
func (e *Place) Begin(resumed bool) *state.Record {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	switch {
	case e.Named:
		e.Record = e.loadRecord(resumed)
		e.SpareID, e.Token, e.filled = e.Record.Place, e.Record.Token, len(e.Record.Settings) > 0
	case e.Config.Engine.Abilities().Remote:
		e.Token = state.NewRecord().Token
	}
	e.trust()
	if e.Named {
		e.SaveRecord()
	}
	e.Resumed.Store(resumed)
	return e.Record
}

// loadRecord returns an earlier server's record, or a new one.
func (e *Place) loadRecord(resumed bool) *state.Record {
	var r *state.Record
	if resumed {
		r = state.LoadRecord(e.Config.StateDir, e.ID)
	}
	if r == nil {
		r = state.NewRecord()
	}
	r.Unnamed = false
	if !e.Config.Visit || r.IdleSeconds == 0 {
		own := runs.Limits{Config: e.Config}
		own.Restore(r)
		r.IdleSeconds = own.Ends().IdleTimeout.Seconds()
		r.KeepSeconds = max(e.Config.Keep.Seconds(), r.IdleSeconds)
		r.FreezeSeconds, r.KeepLimit = e.Config.SnapshotTime().Seconds(), cmp.Or(e.Config.QuotaNow().KeepLimit, e.Config.KeepLimit)
	}
	return r
}

// SaveRecord writes the record, and warns the session's user if it cannot.
func (e *Place) SaveRecord() {
	if err := e.Record.Save(e.Config.StateDir, e.ID); err != nil {
		e.Config.Logger.Warn("session record", "session", e.ID, "error", err)
		e.Note("The server cannot write its state directory, whose disk may be full: its successor may not find this session's variables. The files stay.")
	}
}

// Rest records that the session has no kernels of the enabled languages, and the size of its history and files; nil: unknown. The
// caller holds e.Mu.
func (e *Place) Rest(size *int64, history int64) {
	if e.Record == nil { // an unnamed session gets one now
		e.Record = e.loadRecord(true)
	}
	for language := range e.Record.Settings {
		if _, on := e.Config.Kernels[runs.Language(language)]; on {
			e.Record.Settings[language] = ""
		}
	}
	e.Record.Awake, e.Record.HistoryBytes = time.Time{}, history
	if size != nil {
		e.Record.SizeBytes = *size
	}
	e.SaveRecord()
}

// NoteSettings records the settings of a named session's container for a language in it, and the start of its first kernel. If that
// fails, a later server makes a new container.
func (e *Place) NoteSettings(language runs.Language, key string, awake time.Time) {
	if e.Named {
		e.TakeSettings(language, key, awake)
		e.SaveRecord()
	}
}

// NoteEnded records that the container for these languages ended, whatever it was made with.
func (e *Place) NoteEnded(languages []runs.Language) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if !e.Named {
		return
	}
	changed := false
	for _, language := range languages {
		if e.Record.Settings[string(language)] != "" {
			e.Record.Settings[string(language)], changed = "", true
		}
	}
	if changed {
		e.SaveRecord()
	}
}

// NoteUse is NoteSettings for a further language of a container.
func (e *Place) NoteUse(language runs.Language, key string) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Named && e.Record.Settings[string(language)] != key {
		e.NoteSettings(language, key, e.Record.Awake)
	}
}

// TakeSettings is NoteSettings without writing.
func (e *Place) TakeSettings(language runs.Language, key string, awake time.Time) {
	e.Record.Settings[string(language)], e.Record.Awake = key, awake
}

// SettingsKey returns an equal key for containers with equal image, settings, folders and secrets. Only the user may read it, as
// the token in the same file: a reader could try guesses at a secret. Empty: the session keeps no record.
func (e *Place) SettingsKey(languages []runs.Language, image engine.ImageInfo) string {
	if e.Record == nil {
		return ""
	}
	c := e.Config
	return engine.Key(e.Record.Token, e.shape(languages, image), e.certificates, c.Env, c.VolumeFiles, c.UndoBytes, c.WireLimits(), e.Limits.Ends().IdleTimeout)
}

// SpareKey is SettingsKey without the parts that a spare gets when it is bound to a session, and with those that matter before
// there are variables.
func (e *Place) SpareKey(languages []runs.Language, image engine.ImageInfo) string {
	return engine.Key(e.shape(languages, image), e.Config.VolumeFiles, e.Config.UndoBytes, e.Config.WireLimits(), e.Config.Preload(languages))
}

// shape lists the settings of a container, whichever interpreter starts first.
func (e *Place) shape(languages []runs.Language, image engine.ImageInfo) []string {
	return []string{image.ID, e.Config.Engine.Shape(e.Spec(languages, languages[0], image))}
}

var (
	// ErrNeverStarted leaves no container to take over.
	ErrNeverStarted = errors.New("no kernel was started before")
	// ErrOtherSettings forbids to take a container over.
	ErrOtherSettings = errors.New("the container was made with other settings")
)

// Fits reports whether a container for these languages, by the key of its settings, is one that this server would make itself:
// ErrNeverStarted or ErrOtherSettings if not.
func (e *Place) Fits(ctx context.Context, languages []runs.Language, key string) error {
	image, err := e.Supply.Images.get(ctx, e.Config.Engine, e.Config.Kernels[languages[0]].Image)
	if err != nil {
		return err
	}
	switch {
	case key == "":
		return ErrNeverStarted
	case key != e.SettingsKey(languages, image):
		return ErrOtherSettings
	}
	return nil
}

// Containers -----------------------------------------------------------------------

// answerTime is how long a call waits for an image, before it answers with the progress.
const answerTime = 18 * time.Second

// Image looks an image up. It makes a missing one if it can, for as long as a call waits.
func (e *Place) Image(setting runs.KernelConfig) (engine.ImageInfo, error) {
	look := func() (engine.ImageInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), e.Config.StartTimeout)
		defer cancel()
		return e.Supply.Images.get(ctx, e.Config.Engine, setting.Image)
	}
	until := time.Now().Add(answerTime)
	image, err := look()
	if setting.MakeImage == nil || !errors.Is(err, engine.ErrImageMissing) {
		return image, err
	}
	if err := setting.MakeImage(e.Ctx, time.Until(until)); err != nil {
		return engine.ImageInfo{}, err
	}
	return look()
}

// Spec returns the engine's request for an unnamed session, by a configuration.
func Spec(config *runs.Config) (engine.Spec, error) {
	e := &Place{ID: "template", Config: config, Limits: &runs.Limits{Config: config}}
	e.trust()
	for _, languages := range config.Containers() {
		return e.Spec(languages, languages[0], engine.ImageInfo{}), nil
	}
	return engine.Spec{}, errNoLanguage
}

var errNoLanguage = errors.New("all languages are switched off")

// EndsMargin is how much longer than its kernels an engine keeps a container that no server asks for.
const EndsMargin = time.Hour

// Spec returns the settings of a container for these languages, in which one's interpreter starts first. Of the image it needs only
// the processor, which all images of a volume share.
func (e *Place) Spec(languages []runs.Language, first runs.Language, image engine.ImageInfo) engine.Spec {
	setting := e.Config.Kernel(languages[0])
	_, id := e.at()
	// A spare may become a named session's at any time: its kernels count from then on.
	lasts, ends, grace := e.Named || IsSpare(id), time.Duration(0), time.Duration(0)
	if most := e.Limits.Ends(); !IsSpare(id) {
		ends = most.Lifetime + most.IdleTimeout + EndsMargin
	}
	if lasts {
		grace = e.Config.RetireTime()
	}
	labels := map[string]string{
		runs.LabelSession: LabelOf(e.at()), runs.LabelHost: e.Config.Host, runs.LabelLanguage: string(languages[0]),
		runs.LabelNamed: fmt.Sprint(e.Named && e.SpareID == ""), // the owner's record says so of a spare's place
	}
	if tenant, _ := e.at(); tenant != "" {
		labels[runs.LabelTenant] = tenant
	}
	return engine.Spec{
		Name:    e.Name(languages[0]),
		Volume:  e.VolumeName(),
		Labels:  labels,
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: containers.Supervisor(inOrder(languages, first)...),
		Env:     e.environment(),
		Limits:  e.Limits.Container(),
		Mounts:  e.Config.Mounts,
		Skills:  setting.Skills,

		VolumeBytes: e.Config.VolumeBytes, Lasts: lasts, Ends: ends, Grace: grace,
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

// Init returns a new container's first message to the supervisor. warm: a kernel of the first language is made ready before a run
// asks for it.
func (e *Place) Init(languages []runs.Language, first runs.Language, warm bool) protocol.Init {
	ready := []string{}
	if warm {
		ready = append(ready, string(first))
	}
	limits := e.Config.WireLimits()
	onEOF, freezeBytes := "exit", int64(0)
	if e.Token != "" {
		onEOF = "wait"
	}
	if e.Named {
		freezeBytes = e.Config.FreezeBytes
	}
	memory := e.Limits.Container().MemoryBytes
	return protocol.Init{
		MemoryBytes: memory, FreezeBytes: freezeBytes, FreezeSeconds: int(e.Config.FreezeTime.Seconds()),
		Twins: runs.MostTwins, TwinBytes: memory / runs.TwinShare,
		WayOut: e.outPort(), Trust: e.certificates,
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, Env: e.Config.Env, Preload: e.Config.Preload(languages), Warm: ready,
		IdleSeconds: int64(e.Limits.Ends().IdleTimeout.Seconds()), OnEOF: onEOF, Token: e.Token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: e.Config.VolumeBytes, VolumeFiles: e.Config.VolumeFiles, UndoBytes: e.Config.UndoBytes,
	}
}

// MakeRoom removes anything with the name of a container: an ended one, a dead server's, or one that an engine did not finish
// starting; or all of a session that was to be removed. The caller holds e.Mu.
func (e *Place) MakeRoom(ctx context.Context, language runs.Language, mayBeThere bool) error {
	if e.Stale {
		for _, place := range slices.Compact([]string{e.SpareID, cmp.Or(e.Left, e.SpareID)}) {
			was := &Place{ID: e.ID, SpareID: place, Config: e.Config}
			if err := e.Config.Engine.Remove(ctx, was.Names(), []string{was.VolumeName()}); err != nil {
				return err
			}
		}
		e.Stale = false
	}
	if _, ready := e.ReadyAs[string(language)]; !mayBeThere && !e.Resumed.Load() && !ready {
		return nil
	}
	return e.Config.Engine.Remove(ctx, []string{e.Name(language)}, nil)
}

// Remove removes a container, unless the session ends meanwhile: that removes it too, or another server owns it then.
func (e *Place) Remove(ctx context.Context, language runs.Language) error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Ctx.Err() != nil {
		return nil
	}
	return e.Config.Engine.Remove(ctx, []string{e.Name(language)}, nil)
}

// Join starts the program that connects its stdio to process 1's socket in one of the session's containers.
func (e *Place) Join(ctx context.Context, language runs.Language) (engine.Process, error) {
	return e.Exec(ctx, language, e.Config.Kernels[language].Join)
}

// Exec starts a program in one of the session's containers.
func (e *Place) Exec(ctx context.Context, language runs.Language, command []string) (engine.Process, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if err := context.Cause(e.Ctx); err != nil {
		return nil, err // another server may own the container by now
	}
	return e.Config.Engine.Exec(ctx, e.Name(language), command)
}

// FilesThere returns a phrase, behind a sentence, that a formerly used session's files are there; empty: they are not, or it is
// unknown. If its volume was removed, or its state folder restored without it, the next run of each language reports that. It
// looks once, before anything makes the volume anew.
func (e *Place) FilesThere() string {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.looked || len(e.Record.Settings) == 0 { // it never had files
		return e.files
	}
	ctx, cancel := context.WithTimeout(e.Ctx, ListTimeout)
	defer cancel()
	inventory, err := e.Config.Engine.List(ctx, runs.LabelSession, LabelOf(e.at()))
	if err != nil {
		e.Config.Logger.Debug("look for the volume", "session", e.ID, "error", err)
		return ""
	}
	e.looked = true
	if slices.ContainsFunc(inventory.Volumes, func(v engine.Volume) bool { return v.Name == e.VolumeName() }) {
		e.files = ". The session's files are there"
	} else {
		e.Lost()
	}
	return e.files
}

// NoteVolume records that a container came up, and notes for the next run the engine's report: it made a new volume, so the
// session's files are gone, or it kept a container for them.
func (e *Place) NoteVolume(started engine.Started) {
	if started.NewVolume && e.filled {
		e.Lost()
	}
	if started.OtherSettings {
		e.Note("This session stays in a container with the settings that it was made with, because its files are in it: its limits may be smaller than asked for.")
	}
	e.filled = true
}

// HasFiles reports whether the session may have files: false if no container ever came up and none starts now.
func (e *Place) HasFiles() bool {
	if e.Resumed.Load() || !e.Mu.TryLock() {
		return true
	}
	defer e.Mu.Unlock()
	return e.filled
}

// Used reports whether anything of this session can be on the engine.
func (e *Place) Used() bool { return e.Resumed.Load() || e.Tried.Load() }

// Lock takes mu if it can before ctx ends, and reports whether it did.
func (e *Place) Lock(ctx context.Context) bool {
	for !e.Mu.TryLock() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(LeaveTime / 40)
	}
	return true
}

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
