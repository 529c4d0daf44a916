// The log, without the secrets of any principal.

package server

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// Logger returns a log to out, which is stderr, or to the log file. It masks the secrets: a log quotes the sandbox.
func (p *Program) Logger(out io.Writer) (*slog.Logger, error) { return openLog(&p.Log, out, p.Mask()) }

// Mask returns the masker of all principals' secrets, for the log and the audit log.
func (p *Program) Mask() *secrets.Masker {
	if p.logMask == nil {
		var others []*Program
		if p.Others != nil {
			others = p.Others()
		}
		p.logMask = secrets.Growing(p.everySecret(others))
	}
	return p.logMask
}

// LearnSecrets adds the secrets of other principals to those that the logs mask.
func (p *Program) LearnSecrets(others []*Program) { p.Mask().Learn(p.everySecret(others)) }

// everySecret returns the secrets of the owner and of other principals, by the names of variables.
func (p *Program) everySecret(others []*Program) map[string]string {
	all := make(map[string]string)
	sources, _ := sql.Sources(p.Env.Environ(), setting.IsSetting) // opening one reports its error
	for i, own := range append([]*Program{p}, others...) {
		for name, value := range own.secretValues(own.Env.PassThrough(own.PassThroughEnv, slog.New(slog.DiscardHandler)), sources) {
			if had, known := all[name]; known && had != value {
				name = fmt.Sprintf("%s_%d", name, i)
			}
			all[name] = value
		}
	}
	return all
}
