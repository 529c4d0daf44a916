package server

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
)

// PackageSettings configure the packages that code may install, and their indexes.
type PackageSettings struct {
	Rules      packages.Rules
	PyPI, NPM  string
	Timeout    time.Duration
	CacheLimit int64
}

// check refuses contradictions.
func (p *PackageSettings) check() error {
	options, err := p.options("")
	if err != nil {
		return err
	}
	_, err = packages.New(options)
	return err
}

// options returns the options of the sandboxes' package indexes, without the log.
func (p *PackageSettings) options(stateDir string) (packages.Options, error) {
	policy, err := packages.NewPolicy(p.Rules)
	return packages.Options{
		Policy: policy, CacheFolder: packages.CacheFolder(stateDir), CacheLimit: p.CacheLimit,
		PyPI: p.PyPI, NPM: p.NPM, Timeout: p.Timeout,
	}, err
}
