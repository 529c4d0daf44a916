package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// kernel returns the slot's live kernel: the one it has, one that runs without a server, or a new one, for whose turn to start it
// waits until ctx ends.
func (s *session) kernel(ctx context.Context, l *slot, note func(string), warm bool) (*kernel, error) {
	l.starting.Lock()
	defer l.starting.Unlock()
	// In the end, because reachEarlier may add notes.
	defer func() {
		for _, text := range l.takeNotes() {
			note(text)
		}
	}()
	if k := l.kernel.Load(); k != nil && k.alive() {
		l.noteLost(k, note)
		return k, nil
	}
	if k, err := s.retake(l); k != nil || err != nil {
		return k, err
	}
	k, err := s.reachEarlier(l)
	switch {
	case k != nil:
		return k, nil
	case err != nil && !isFinal(err):
		return nil, errNotTakenOver(s.id, l.language).Because(err)
	case l.had.Load():
		note(fmt.Sprintf("The %s kernel's container had ended since the last run: its variables are gone, the files are there.", l.language))
	case errors.Is(err, errOtherSettings):
		note(fmt.Sprintf("The server's settings or secrets have changed since this session's %s kernel began, so it begins anew: its variables are gone, the files are there.", l.language))
	}
	k, err = s.startKernel(ctx, l, warm)
	if err != nil {
		return nil, err
	}
	l.setKernel(k)
	l.reached = true
	s.loseUnfinished(l, false) // whatever there was has been replaced
	return k, nil
}

// discard removes the container of a kernel that is of no more use, unless it has a follower already.
func (s *session) discard(l *slot, k *kernel) {
	l.starting.Lock() // the next one of this name is not started while this one is removed
	defer l.starting.Unlock()
	k.close()
	if l.kernel.Load() != k {
		return
	}
	l.kernel.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	if s.ctx.Err() != nil {
		return // it is another server's by now, or goes with the session
	}
	if err := s.config.Engine.Remove(ctx, []string{s.containerName(l.language)}, nil); err != nil {
		s.config.Logger.Warn("remove container", "session", s.id, "error", err)
	}
}

// warm makes the slot's kernel ready ahead of its first run.
func (s *session) warm(language Language) {
	l := s.slots[language]
	if l == nil {
		return
	}
	if s.awaitOpen(s.ctx) != nil {
		return
	}
	s.mu.Lock()
	if l.inUse() { // a run was quicker
		s.mu.Unlock()
		return
	}
	turn := l.enqueue()
	s.mu.Unlock()
	defer turn.leave()
	if _, err := s.kernel(s.ctx, l, l.noteLater, true); err != nil {
		s.config.Logger.Warn("prewarm", "session", s.id, "language", language, "error", err, "cause", errors.Unwrap(err))
	}
}

// mostStarts is how many containers of a server come up at once: an engine that starts many is slow with each. The others wait,
// which their start-timeout does not count.
const mostStarts = 8

// awaitStart waits for one of these places. leave releases it.
func (s *session) awaitStart(ctx context.Context) (leave func(), err error) {
	select {
	case s.config.starts <- struct{}{}:
		return sync.OnceFunc(func() { <-s.config.starts }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

// startKernel makes the slot's container and sends it its settings. It does not wait until the
// supervisor is up: what follows is read when it is. Once it has begun, neither a cancelled run nor a closing session cuts
// it short: an engine goes on with a request whose client has left, and what it makes then would have no owner.
func (s *session) startKernel(waiting context.Context, l *slot, warm bool) (k *kernel, err error) {
	setting := s.config.Kernels[l.language]
	image, err := s.image(setting)
	if err != nil {
		return nil, engineFault(err, l.language, setting)
	}
	leave, err := s.awaitStart(waiting)
	if err != nil {
		return nil, err
	}
	defer func() {
		if k == nil {
			leave()
		}
	}()
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	if err := context.Cause(s.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	if err := s.makeRoom(ctx, l); err != nil {
		return nil, engineFault(err, l.language, setting)
	}
	l.tried = true
	proc, err := s.config.Engine.Start(ctx, s.spec(l.language, setting, image))
	if err != nil {
		s.images.forget(setting.Image)
		return nil, engineFault(err, l.language, setting)
	}
	s.limits.settle(s.record)
	k = newKernel(proc, s.wireLimits(), s.config.Logger.With("session", s.id, "language", l.language))
	k.serveOut, k.out = s.outlet(), s.out
	k.begin(s.init(setting, warm))
	s.noteSettings(l.language, setting, image) // while the supervisor comes up
	go func() {
		defer leave()
		ctx, cancel := context.WithTimeout(s.ctx, s.config.StartTimeout)
		defer cancel()
		_ = k.awaitReady(ctx)
	}()
	return k, nil
}

// image looks an image up, and has it made where it is missing and that is possible.
func (s *session) image(setting KernelConfig) (engine.ImageInfo, error) {
	look := func() (engine.ImageInfo, error) {
		ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
		defer cancel()
		return s.images.get(ctx, s.config.Engine, setting.Image)
	}
	image, err := look()
	if setting.MakeImage == nil || !errors.Is(err, engine.ErrImageMissing) {
		return image, err
	}
	if err := setting.MakeImage(s.ctx); err != nil {
		return engine.ImageInfo{}, err
	}
	return look()
}

// makeRoom removes what may still have the name of the slot's container: one that ended, that a dead
// server left, or whose start an engine did not finish; or all of a session that was to be removed.
func (s *session) makeRoom(ctx context.Context, l *slot) error {
	if s.stale {
		if err := s.config.Engine.Remove(ctx, s.containerNames(), []string{s.volumeName()}); err != nil {
			return err
		}
		s.stale = false
	}
	if !l.tried && !l.had.Load() && !s.resumed {
		return nil
	}
	return s.config.Engine.Remove(ctx, []string{s.containerName(l.language)}, nil)
}

func (s *session) spec(language Language, setting KernelConfig, image engine.ImageInfo) engine.Spec {
	return engine.Spec{
		Name:   s.containerName(language),
		Volume: s.volumeName(),
		Labels: map[string]string{
			LabelSession: s.id, LabelHost: s.config.Host, LabelLanguage: string(language),
			LabelNamed: fmt.Sprint(s.named),
		},
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: setting.Command,
		Env:     s.outEnvironment(),
		Limits:  s.limits.container(),
		Mounts:  s.config.Mounts,
	}
}

func (s *session) wireLimits() wireLimits {
	return wireLimits{
		OutputBytes: s.config.OutputBytes, SpoolBytes: s.config.SpoolBytes,
		ImageBytes: maxImageBytes, MaxDisplays: maxDisplays, MaxArtifacts: MaxArtifacts, Linger: s.config.Linger,
	}
}

func (s *session) init(setting KernelConfig, warm bool) protocol.Init {
	limits := s.wireLimits()
	onEOF, token := "exit", ""
	if s.named {
		onEOF, token = "wait", s.record.Token
	}
	return protocol.Init{
		WayOut: s.outPort(), Trust: s.certificates,
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, Env: s.config.Env, Preload: setting.Preload, Warm: warm,
		IdleSeconds: int64(s.limits.ends().IdleTimeout.Seconds()), OnEOF: onEOF, Token: token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: s.config.VolumeBytes, VolumeFiles: s.config.VolumeFiles,
	}
}

// noteSettings records what a named session's container was made with. Where that fails, a later
// server makes a new one.
func (s *session) noteSettings(language Language, setting KernelConfig, image engine.ImageInfo) {
	if !s.named {
		return
	}
	key, err := s.settingsKey(setting, image)
	if err == nil {
		s.record.Settings[string(language)] = key
		s.saveRecord()
		return
	}
	s.config.Logger.Warn("session record", "session", s.id, "error", err)
}

// settingsKey is the same for containers that were made with the same image, limits, folders and secrets. It is
// for the user's eyes alone, as the token in the same file is: a reader of it could try guesses at a secret.
func (s *session) settingsKey(setting KernelConfig, image engine.ImageInfo) (string, error) {
	text, err := json.Marshal([]any{
		s.record.Token, image.ID, setting.Image, setting.Command,
		s.limits.container(), s.config.Mounts, s.outEnvironment(), s.certificates, s.config.Env, s.config.VolumeBytes, s.config.VolumeFiles, s.wireLimits(), s.limits.ends().IdleTimeout,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// neverReady says why a container that started did not become a kernel: most often its image has
// an interpreter that is too old, or something else by that name.
func (s *session) neverReady(k *kernel, language Language) *fault.Error {
	setting := s.config.Kernels[language]
	if k.missing.Load() {
		return engineFault(engine.ErrNoInterpreter, language, setting)
	}
	f := fault.New(fault.ExecutionFailed,
		fmt.Sprintf("Use an image with a working %s, or leave the image setting out to use the standard one.", setting.Interpreter),
		"The %s kernel did not start in image %q.", language, setting.Image)
	if said := s.config.Mask.MaskPart(clip(k.proc.Stderr(), 2000)); said != "" {
		f.Message += " It said: " + said
	}
	return f
}
