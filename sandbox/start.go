package sandbox

import (
	"context"
	"fmt"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// startKernel makes the lane's container and sends it its settings. It does not wait until the
// supervisor is up: what follows is read when it is. Neither a cancelled run nor a closing session cuts
// it short: an engine goes on with a request whose client has left, and what it makes then is nobody's.
func (s *session) startKernel(l *lane, warm bool) (*kernel, error) {
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
	setting := s.config.Kernels[l.language]
	image, err := s.images.get(ctx, s.config.Engine, setting.Image)
	if err != nil {
		return nil, engineFault(err, l.language, setting)
	}
	if err := s.makeRoom(ctx, l); err != nil {
		return nil, engineFault(err, l.language, setting)
	}
	l.tried = true
	proc, err := s.config.Engine.Start(ctx, s.spec(l.language, setting, image))
	if err != nil {
		s.images.forget(setting.Image)
		return nil, engineFault(err, l.language, setting)
	}
	s.noteSettings(l.language, setting, image)
	k := newKernel(proc, s.wireLimits(), s.config.Logger.With("session", s.id, "language", l.language))
	k.begin(s.init(setting, warm))
	return k, nil
}

// makeRoom removes what may still have the name of the lane's container: one that ended, that a dead
// server left, or whose start an engine did not finish; or all of a session that was to be removed.
func (s *session) makeRoom(ctx context.Context, l *lane) error {
	if s.stale {
		if err := s.config.Engine.Remove(ctx, s.containerNames(), []string{s.volumeName()}); err != nil {
			return err
		}
		s.stale = false
	}
	if !l.tried && !l.hadKernel() && !s.resumed {
		return nil
	}
	return s.config.Engine.Remove(ctx, []string{s.containerName(l.language)}, nil)
}

func (s *session) spec(language Language, setting KernelConfig, image ImageInfo) Spec {
	return Spec{
		Name:   s.containerName(language),
		Volume: s.volumeName(),
		Labels: map[string]string{
			LabelSession: s.id, LabelHost: s.config.Host, LabelLanguage: string(language),
			LabelNamed: fmt.Sprint(s.named),
		},
		Image:   setting.Image,
		Arch:    image.Arch,
		Command: setting.Command,
		Limits:  s.config.Limits,
	}
}

func (s *session) wireLimits() wireLimits {
	return wireLimits{
		OutputBytes: s.config.OutputBytes, SpoolBytes: s.config.SpoolBytes,
		ImageBytes: maxImageBytes, MaxDisplays: maxDisplays, MaxArtifacts: maxArtifacts, Linger: s.config.Linger,
	}
}

func (s *session) init(setting KernelConfig, warm bool) protocol.Init {
	limits := s.wireLimits()
	onEOF, token := "exit", ""
	if s.named {
		onEOF, token = "wait", s.record.Token
	}
	return protocol.Init{
		Type: "init", Protocol: protocol.Version, WorkDir: WorkDir, Env: s.config.Env, Preload: setting.Preload, Warm: warm,
		IdleSeconds: int64(s.config.IdleTimeout.Seconds()), OnEOF: onEOF, Token: token,
		OutputBytes: limits.OutputBytes, SpoolBytes: int64(limits.SpoolBytes), ImageBytes: limits.ImageBytes,
		MaxDisplays: limits.MaxDisplays, MaxArtifacts: limits.MaxArtifacts,
		VolumeBytes: s.config.VolumeBytes, VolumeFiles: s.config.VolumeFiles,
	}
}

// noteSettings records what a named session's container was made with. Where that fails, a later
// server makes a new one.
func (s *session) noteSettings(language Language, setting KernelConfig, image ImageInfo) {
	if !s.named {
		return
	}
	key, err := s.settingsKey(setting, image)
	if err == nil {
		s.record.Settings[language] = key
		s.saveRecord()
		return
	}
	s.config.Logger.Warn("session record", "session", s.id, "error", err)
}

// What a run reports at the most.
const (
	maxImageBytes = 5 << 20
	maxDisplays   = 16
	maxArtifacts  = 100
)

// neverReady tells why a container that started did not become a kernel: most often its image has
// an interpreter that is too old, or something else by that name.
func (s *session) neverReady(k *kernel, language Language) *fault.Error {
	setting := s.config.Kernels[language]
	if k.missing.Load() {
		return engineFault(ErrNoInterpreter, language, setting)
	}
	f := fault.New(fault.ExecutionFailed,
		fmt.Sprintf("Use an image with a working %s, or leave the image setting out to use the standard one.", setting.Interpreter),
		"The %s kernel did not start in image %q.", language, setting.Image)
	if said := s.config.Mask.MaskPart(clip(k.proc.Stderr(), 2000)); said != "" {
		f.Message += " It said: " + said
	}
	return f
}
