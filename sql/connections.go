package sql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql"
	SQLServer  Dialect = "sqlserver"
	MySQL      Dialect = "mysql" // MariaDB too
)

// Source is a connection that somebody configured. DSN and Password are secret.
type Source struct {
	Name     string // in lower case
	Variable string // the environment variable that it is from
	Dialect  Dialect
	DSN      string
	Password string // beside the DSN; empty: the DSN contains it, or there is none
	// Foreign: somebody else than the server's user wrote it, so it may use no file and no login of this machine.
	Foreign bool
}

// Names of variables that hold connections.
const (
	sourcePrefix  = "SANDBOX_SQL_"
	azureVariable = "AZURE_DATABASE_CONNECTION_STRING"
	azurePassword = "AZURE_DATABASE_PASSWORD"
	azureName     = "azure"
)

var connectionName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,62}$`)

// Sources finds the connections in an environment, ordered by name. reserved recognises settings among variables that look like connections.
// The error names the variables in error and never a value; the other connections are found all the same.
func Sources(environ []string, reserved func(variable string) bool) ([]Source, error) {
	values := make(map[string]string)
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			values[name] = value
		}
	}
	var sources []Source
	var problems []error
	variables := make(map[string]string) // by the connection's name
	add := func(s Source) {
		if first, taken := variables[s.Name]; taken {
			problems = append(problems, fmt.Errorf("%s: the connection %s is %s already; take one of the two away", s.Variable, s.Name, first))
			return
		}
		variables[s.Name] = s.Variable
		sources = append(sources, s)
	}
	for _, variable := range slices.Sorted(maps.Keys(values)) {
		name, ok := strings.CutPrefix(variable, sourcePrefix)
		switch {
		case variable == azureVariable:
			add(Source{
				Name: azureName, Variable: variable, Dialect: SQLServer, DSN: values[variable], Password: values[azurePassword],
			})
		case !ok || reserved(variable):
		case !connectionName.MatchString(name):
			problems = append(problems, fmt.Errorf("%s: a connection's name has capitals, digits and _", variable))
		default:
			dialect, err := dialectOf(values[variable])
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", variable, err))
				continue
			}
			add(Source{Name: strings.ToLower(name), Variable: variable, Dialect: dialect, DSN: values[variable]})
		}
	}
	slices.SortFunc(sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return sources, errors.Join(problems...)
}

var (
	postgresWords = regexp.MustCompile(`(?i)(^|\s)(host|hostaddr|dbname|service|user|port)\s*=`)
	serverWords   = regexp.MustCompile(`(?i)(^|;)\s*(server|data source|addr|address|network address|driver)\s*=`)
	mysqlAddress  = regexp.MustCompile(`(^|@)(tcp|unix)\([^()]+\)/`)
)

func dialectOf(dsn string) (Dialect, error) {
	scheme, _, hasScheme := strings.Cut(dsn, "://")
	if hasScheme && !strings.ContainsAny(scheme, " =;") {
		switch strings.ToLower(scheme) {
		case "postgres", "postgresql":
			return PostgreSQL, nil
		case "sqlserver", "mssql", "azuresql":
			return SQLServer, nil
		case "mysql", "mariadb":
			return MySQL, nil
		}
		return "", errors.New("there are postgres://, mysql://, mariadb://, sqlserver:// and azuresql://")
	}
	switch {
	case strings.HasPrefix(strings.ToLower(dsn), "odbc:"), serverWords.MatchString(dsn):
		return SQLServer, nil
	case postgresWords.MatchString(dsn):
		return PostgreSQL, nil
	case mysqlAddress.MatchString(dsn):
		return MySQL, nil
	}
	return "", errors.New("neither a URL that begins with postgres://, mysql:// or sqlserver://, nor key=value pairs that name a host, nor user:password@tcp(host:3306)/database")
}

// Opener makes a database of a source. It does not connect yet.
type Opener func(source Source) (Database, error)

// Connections is every configured database by name. A database is opened when it is first asked for.
// The methods may be called by several goroutines.
type Connections struct {
	sources []Source
	open    Opener

	mu     sync.Mutex
	opened map[string]Database
}

// NewConnections makes the set; open is called at most once for each source that it opens.
func NewConnections(sources []Source, open Opener) *Connections {
	return &Connections{sources: sources, open: open, opened: make(map[string]Database)}
}

// Sources returns the configured connections.
func (c *Connections) Sources() []Source {
	if c == nil {
		return nil
	}
	return c.sources
}

// Get finds a connection. The empty name is the only one there is. connection_not_found names the others.
func (c *Connections) Get(name string) (Source, Database, error) {
	source, err := c.find(name)
	if err != nil {
		return Source{}, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if db, ok := c.opened[source.Name]; ok {
		return source, db, nil
	}
	db, err := c.open(source)
	var said *fault.Error
	if errors.As(err, &said) {
		return Source{}, nil, said
	}
	if err != nil {
		return Source{}, nil, fault.New(fault.SQLFailed, "Ask the user to correct "+source.Variable+" in the client's configuration.",
			"The connection string of %q is not understood.", source.Name).Because(err)
	}
	c.opened[source.Name] = db
	return source, db, nil
}

func (c *Connections) find(name string) (Source, error) {
	if name == "" && len(c.sources) == 1 {
		return c.sources[0], nil
	}
	names := make([]string, len(c.sources))
	for i, s := range c.sources {
		if strings.EqualFold(s.Name, name) {
			return s, nil
		}
		names[i] = s.Name
	}
	what := fmt.Sprintf("There is no connection %.80q.", name)
	if len(c.sources) == 0 {
		return Source{}, fault.New(fault.ConnectionNotFound, "Ask the user to configure one, or to send one with the client's requests.", "There is no connection.")
	}
	if name == "" {
		what = "There are several connections and the call names none."
	}
	return Source{}, fault.New(fault.ConnectionNotFound, "Pass connection as one of: "+strings.Join(names, ", ")+".", "%s", what)
}

// Close closes all connections; ctx bounds the wait for running statements.
func (c *Connections) Close(ctx context.Context) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, db := range c.opened {
			db.Close()
		}
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
