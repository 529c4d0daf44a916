// The settings of parts of a server.

package setting

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/artifactstore"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/upstream"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// Packages configures the packages that code may install, and their indexes.
type Packages struct {
	Rules     packages.Rules
	PyPI, NPM string
}

func (p *Packages) check() error {
	options, err := p.Options("")
	if err != nil {
		return err
	}
	_, err = packages.New(options)
	return err
}

// Options returns the options of the sandboxes' package indexes, without the log.
func (p *Packages) Options(stateDir string) (packages.Options, error) {
	policy, err := packages.NewPolicy(p.Rules)
	return packages.Options{
		Policy: policy, CacheFolder: packages.CacheFolder(stateDir), CacheLimit: max(packages.DefaultCacheLimit, p.Rules.FileLimit),
		PyPI: p.PyPI, NPM: p.NPM,
	}, err
}

// Databases configures the databases of the environment, and queries of them.
type Databases struct {
	Limits   tools.Databases // its limits
	Allow    []string        // functions
	Names    []string        // none: all
	FromCode bool
}

// Sources returns the databases of the environment. The error says which have a wrong variable.
func (d *Databases) Sources(environ []string) ([]sql.Source, error) {
	sources, err := sql.Sources(environ, IsSetting)
	if len(d.Names) > 0 {
		sources = slices.DeleteFunc(sources, func(source sql.Source) bool { return !slices.Contains(d.Names, source.Name) })
	}
	return sources, err
}

// ToolServers configures the tools of other MCP servers that code may call.
type ToolServers struct {
	File       string // empty: none
	Allow      []string
	TrustHints bool
}

func (u *ToolServers) check(lookup func(string) (string, bool)) error {
	var found Problems
	_, err := u.Read(lookup)
	found = append(found, err)
	found.Wrong(u.File == "" && len(u.Allow) > 0, "--mcp-allow %s has no effect without --mcp-servers", strings.Join(u.Allow, ","))
	wrong := upstream.Patterns(u.Allow).Wrong()
	found.Wrong(wrong != "", "--mcp-allow %q is no tool: write server.tool, with * for any part", wrong)
	return errors.Join(found...)
}

// Read reads the file.
func (u *ToolServers) Read(lookup func(string) (string, bool)) (upstream.Config, error) {
	if u.File == "" {
		return upstream.Config{}, nil
	}
	config, err := upstream.Read(u.File, lookup)
	if err != nil {
		return upstream.Config{}, fmt.Errorf("--mcp-servers %s: %w", u.File, err)
	}
	return config, nil
}

// WithSecrets adds the keys of the other servers to the masked values. They never go into the sandbox, but their servers could return
// them.
func (u *ToolServers) WithSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	config, err := u.Read(lookup)
	if err != nil {
		return masked // the server's start reports it
	}
	all := maps.Clone(masked)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, config.Secrets)
	return all
}

// ArtifactStore configures the object store of new files.
type ArtifactStore struct {
	Address string
}

// Parse returns the store's address; ok is false if none is set.
func (s *ArtifactStore) Parse() (address artifactstore.Address, ok bool, err error) {
	if s.Address == "" || s.Address == "off" {
		return address, false, nil
	}
	if address, err = artifactstore.Parse(s.Address); err != nil {
		return address, false, fmt.Errorf("--artifact-store: %w", err)
	}
	return address, true, nil
}

// AzureContainer returns the container of Azure Blob if the setting names none: another system's variable.
func AzureContainer(lookup func(string) (string, bool)) string {
	name, _ := lookup("AZURE_BLOB_CONTAINER_NAME")
	return cmp.Or(name, "code-interpreter-artifacts")
}

// WithSecrets adds the store's credentials to the masked values. They never go into the sandbox.
func (s *ArtifactStore) WithSecrets(masked map[string]string, lookup func(string) (string, bool)) map[string]string {
	if address, ok, _ := s.Parse(); ok {
		maps.Copy(masked, address.Secrets(lookup))
	}
	return masked
}

// Links configures links to the files of sessions.
type Links struct {
	Address string
	URL     string
}

// check refuses unusable settings. overHTTP: MCP's HTTP server serves links too.
func (s *Links) check(overHTTP bool) error {
	var problems []error
	if s.URL != "" {
		if _, err := filelinks.ParseBaseURL(s.URL); err != nil {
			problems = append(problems, fmt.Errorf("--files-http-url: %w", err))
		}
		if s.Address == "" && !overHTTP {
			problems = append(problems, fmt.Errorf("--files-http-url %s has no effect without --files-http or --http", s.URL))
		}
	}
	if s.Address != "" {
		if err := filelinks.CheckAddress(s.Address, s.URL != ""); err != nil {
			problems = append(problems, fmt.Errorf("--files-http: %w; name one of 127.0.0.1, or say with --files-http-url how it is reached", err))
		}
	}
	return errors.Join(problems...)
}

// Log configures the log.
type Log struct {
	File   string // empty: stderr
	Format string
	Level  string
}

// check refuses unknown words.
func (s *Log) check() error {
	var found Problems
	found.Wrong(s.Format != "text" && s.Format != "json", "--log-format %q is neither text nor json", s.Format)
	var level slog.Level
	found.Wrong(level.UnmarshalText([]byte(s.Level)) != nil, "--log-level %q is not debug, info, warn or error", s.Level)
	return errors.Join(found...)
}
