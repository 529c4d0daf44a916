// The commands install and uninstall.

package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/hostdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/install"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// defaultName is the server's name in the configurations of clients.
const defaultName = "code-sandbox"

type installFlags struct {
	program Program
	clients []string
	all     bool
	scope   string
	name    string
	env     []string
	args    []string
	print   bool
	start   bool
	dryRun  bool
	force   bool
}

func (f *installFlags) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.clients, "client", nil, "the `clients`, by name")
	fs.BoolVar(&f.all, "all", false, "all clients that are found on this machine")
	fs.StringVar(&f.scope, "scope", string(install.User), "whose configuration: `user`, or project for that of this folder")
	fs.StringVar(&f.name, "name", defaultName, "`name` of the server in the client")
	fs.BoolVar(&f.dryRun, "dry-run", false, "change nothing, print what would change")
}

func installCommand(p Program) *cobra.Command {
	f := &installFlags{program: p}
	cmd := &cobra.Command{
		Use: "install --client NAME… [-- SERVER FLAGS]", Short: "Put this server into the configuration of AI clients",
		Long: `install puts this server into the configuration of the clients that are named.
Nothing else in their files changes. What a file was is kept beside it, and
uninstall brings it back. Then the server is started once, as a client does.

Flags of the server, given here or after --, go into the entry. In a terminal it
asks for a folder of yours, unless --mount or --allow-host-dir names one.
Without a client it lists which are found here. The clients are

` + clientList() + `

Exit status: 0 it is there, 1 it is not, or the server does not answer, 2 wrong
use.`,
		Example: `  code-sandbox-mcp install --client claude-desktop
  code-sandbox-mcp install --client cursor,zed --dry-run
  code-sandbox-mcp install --client vscode --scope project
  code-sandbox-mcp install --all -- --memory-limit 2g`,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, serverArgs := args, []string(nil)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				names, serverArgs = args[:dash], args[dash:]
			}
			f.clients = append(f.clients, names...)
			serverArgs = slices.Concat(f.args, serverArgs)
			if flags := server.Flags(p.features()); flags.Parse(serverArgs) == nil && flags.NArg() == 0 { // else options reports the mistake
				serverArgs = changedFlags(flags, withCredentials)
			}
			serverArgs = slices.Concat(changedFlags(cmd.InheritedFlags(), withCredentials), serverArgs)
			changes := (len(f.clients) > 0 || f.all) && !f.print && !f.dryRun
			if changes && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) && !slices.ContainsFunc(serverArgs, isFolder) {
				serverArgs = append(serverArgs, f.askFolder(os.Stdin, os.Stderr, serverArgs)...)
			}
			options, err := f.options(serverArgs)
			if err != nil {
				return Usage(err)
			}
			options.Force = f.force
			if len(f.clients) == 0 && !f.all {
				return listClients(os.Stdout, options)
			}
			clients, err := f.chosen(options)
			if err != nil {
				return Usage(err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := f.checkMounts(ctx, options.Server, os.Stderr); err != nil {
				return err
			}
			return f.install(ctx, options, clients)
		},
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringArrayVar(&f.env, "env", nil, "a `variable` for the server, as NAME=VALUE")
	cmd.Flags().StringArrayVar(&f.args, "arg", nil, "an `argument` for the server")
	cmd.Flags().BoolVar(&f.print, "print", false, "change nothing, print what belongs into the configuration, and the link that installs it where there is one")
	cmd.Flags().BoolVar(&f.force, "force", false, "write for a client that is not found here too")
	cmd.Flags().BoolVar(&f.start, "start", true, "start the server once afterwards, as a client does")
	return cmd
}

// checkMounts refuses folders that code could not write to, and tells what it can read in the others. An engine that does not answer yet
// refuses none: the first use does.
func (f *installFlags) checkMounts(ctx context.Context, entry install.Server, w io.Writer) error {
	env := make(map[string]string)
	for _, v := range entry.Env {
		env[v.Name] = v.Value
	}
	p, err := server.Read(f.program.features(), entry.Args, func(name string) (string, bool) { value, is := env[name]; return value, is })
	if err != nil || !slices.ContainsFunc(p.Mounts, func(m hostdir.Mount) bool { return m.Writable }) {
		return err
	}
	err = WithEngine(ctx, p, func(ctx context.Context, on engine.Engine, _ *slog.Logger) error { return p.CheckMounts(ctx, on) })
	var refused *podman.NotWritableError
	switch reason, fix, explained := place.Explain(err); {
	case errors.As(err, &refused):
		return errors.New(reason + " " + fix)
	case err != nil && explained:
		fmt.Fprintf(w, "Whether code can write to these folders shows at the first use: %s\n", reason)
	case err != nil:
		return err
	}
	fmt.Fprintln(w, "In a folder with ,rw code writes as its owner, and reads what only the owner may (files of mode 0600). Rootless Podman copies the image once for that, at the first use.")
	return nil
}

// isFolder reports whether a flag of the server gives code or the model a folder of this machine.
func isFolder(arg string) bool {
	return strings.HasPrefix(arg, "--mount=") || strings.HasPrefix(arg, "--allow-host-dir=")
}

// notInName matches what the name of a mounted folder cannot have.
var notInName = regexp.MustCompile(`^[^A-Za-z0-9]+|[^A-Za-z0-9._-]+`)

// askFolder asks for a folder until one can be used, and returns the flag for it; nothing if none is given.
func (f *installFlags) askFolder(in io.Reader, out io.Writer, serverArgs []string) []string {
	flag, who := "--mount=", "code may read"
	if runtime.GOOS != "linux" || slices.ContainsFunc(serverArgs, func(arg string) bool { return strings.HasPrefix(arg, "--engine") }) {
		flag, who = "--allow-host-dir=", "the model may copy files from and to"
	}
	lines := bufio.NewScanner(in)
	for {
		fmt.Fprintf(out, "A folder of yours that %s (Enter: none): ", who)
		if !lines.Scan() || strings.TrimSpace(lines.Text()) == "" {
			return nil
		}
		folder := strings.TrimSpace(lines.Text())
		if rest, inHome := strings.CutPrefix(folder, "~"); inHome {
			folder = setting.HomeDir() + rest
		}
		folder, err := filepath.Abs(folder)
		if err == nil {
			_, err = os.ReadDir(folder)
		}
		arg := flag + folder
		if flag == "--mount=" {
			arg += ":" + cmp.Or(notInName.ReplaceAllString(filepath.Base(folder), ""), "mine")
		}
		if err == nil {
			err = server.Check(f.program.features(), append(slices.Clone(serverArgs), arg), nil)
		}
		if err == nil {
			return []string{arg}
		}
		fmt.Fprintf(out, "That cannot be: %v.\n", err)
	}
}

func uninstallCommand() *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use: "uninstall --client NAME…", Short: "Take this server out of the configuration of AI clients",
		Long: `uninstall takes this server out of the configuration of the clients that are
named. A file that nobody has changed since install is again what it was, to the
byte; of another nothing but the server's entry goes. Sessions and images stay:
gc, sessions close and podman image rm remove those.`,
		RunE: func(_ *cobra.Command, args []string) error {
			f.clients = append(f.clients, args...)
			options, err := f.options(nil)
			if err != nil {
				return Usage(err)
			}
			if len(f.clients) == 0 && !f.all {
				return Usage(errors.New("say of which clients: --client NAME, or --all"))
			}
			clients, err := f.chosen(options)
			if err != nil {
				return Usage(err)
			}
			return f.uninstall(options, clients)
		},
	}
	f.bind(cmd.Flags())
	cmd.Flags().Lookup("all").Usage = "all clients that have it"
	return cmd
}

// clientList returns the clients' names in lines of a terminal's width.
func clientList() string {
	return strings.Join(wrap(strings.Fields(strings.Join(install.Names(), ", ")), helpWidth), "\n")
}

// masked returns the value of a flag without credentials, since other users' ps shows it too.
func masked(v pflag.Value) string { return v.String() }

// withCredentials returns the value of a flag as given.
func withCredentials(v pflag.Value) string {
	if raw, ok := v.(interface{ Raw() string }); ok {
		return raw.Raw()
	}
	return v.String()
}

// fromAnywhere makes a file's path absolute, so that the server may start in any folder. Other values stay.
func fromAnywhere(f *pflag.Flag, value string) string {
	kind := f.Annotations[setting.KindAnnotation]
	isFile := len(kind) == 1 && slices.Contains([]string{"FILE", "FILES", "FOLDER", "FOLDERS"}, kind[0])
	if !isFile || value == "" || strings.HasPrefix(value, "~") || f.Name == "mount" { // a mount is never relative
		return value
	}
	if absolute, err := filepath.Abs(value); err == nil {
		return absolute
	}
	return value
}

// changedFlags returns the server's flags on the command line, with absolute paths.
func changedFlags(fs *pflag.FlagSet, write func(pflag.Value) string) []string {
	var args []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		value := write(f.Value)
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values := list.GetSlice()
			for i := range values {
				values[i] = fromAnywhere(f, values[i])
			}
			value = strings.Join(values, ",")
		} else {
			value = fromAnywhere(f, value)
		}
		args = append(args, "--"+f.Name+"="+value)
	})
	return args
}

var (
	serverName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// options checks the flags and the arguments for the server.
func (f *installFlags) options(serverArgs []string) (install.Options, error) {
	scope := install.Scope(f.scope)
	if scope != install.User && scope != install.Project {
		return install.Options{}, fmt.Errorf("--scope %q is neither user nor project", f.scope)
	}
	if !serverName.MatchString(f.name) {
		return install.Options{}, fmt.Errorf("--name %q: a name has up to 60 letters, digits, - and _, and begins with none of the last two", f.name)
	}
	entry, env := install.Server{Args: serverArgs}, make(map[string]string)
	for _, pair := range f.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !variableName.MatchString(name) {
			return install.Options{}, fmt.Errorf("--env %q is not of the form NAME=VALUE", pair)
		}
		entry.Env, env[name] = append(entry.Env, install.Variable{Name: name, Value: value}), value
	}
	if err := server.Check(f.program.features(), serverArgs, env); err != nil {
		return install.Options{}, fmt.Errorf("for the server: %w", err)
	}
	var err error
	if entry.Command, err = ownPath(); err != nil {
		return install.Options{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return install.Options{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return install.Options{}, err
	}
	return install.Options{System: install.ThisSystem(home), Dir: dir, Scope: scope, Name: f.name, Server: entry, DryRun: f.dryRun}, nil
}

// ownPath returns the path of this program. It prefers a link, such as package managers put on the PATH, to its target, which changes with
// every version.
func ownPath() (string, error) {
	self, err := os.Executable()
	if called, notFound := exec.LookPath(os.Args[0]); err == nil && notFound == nil && sameFile(called, self) {
		return filepath.Abs(called)
	}
	return self, err
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a) //nolint:gosec // it is only looked at
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// notPassedOn returns the server's variables of this environment that a client would not pass on.
func notPassedOn(environ []string, server install.Server) []string {
	var names []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		ours := strings.HasPrefix(name, "SANDBOX_") || slices.Contains([]string{"CONTAINER_HOST", "DOCKER_HOST", "CONTAINER_IMAGE", "CONTAINER_LANGUAGE"}, name)
		if ours && !slices.ContainsFunc(server.Env, func(v install.Variable) bool { return v.Name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *installFlags) chosen(options install.Options) ([]*install.Client, error) {
	var clients []*install.Client
	names := f.clients
	if f.all {
		names = append(names, install.Names()...)
	}
	for i, name := range names {
		c, err := install.Find(name)
		if err != nil {
			return nil, err
		}
		all := i >= len(f.clients)
		if !slices.Contains(clients, c) && (!all || options.Scope == install.User) && (!all || len(options.Found(c)) > 0) {
			clients = append(clients, c)
		}
	}
	switch {
	case f.all && options.Scope == install.Project:
		return nil, errors.New("--all is for --scope user; a folder does not tell which clients are used in it")
	case len(clients) == 0:
		return nil, fmt.Errorf("none of the clients is found on this machine; `%s install --help` has their names", server.OwnCommand())
	}
	return clients, nil
}

// listClients lists the clients on this machine, and whether the server is in their configuration.
func listClients(w io.Writer, options install.Options) error {
	options.DryRun = true
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CLIENT\tFILE\tHAS THE SERVER")
	found := 0
	for _, name := range install.Names() {
		c, err := install.Find(name)
		if err != nil {
			return err
		}
		for _, file := range options.Found(c) {
			found++
			fmt.Fprintf(table, "%s\t%s\t%s\n", c.Name, file, options.State(c, file))
		}
	}
	if found == 0 {
		fmt.Fprintln(table, "none is found here\t\t")
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nInstall with `%s install --client NAME`, or --all for these.\n", server.OwnCommand())
	return err
}

// install installs, reports each file, and starts the server.
func (f *installFlags) install(ctx context.Context, options install.Options, clients []*install.Client) error {
	if f.print {
		for _, c := range clients {
			printSnippet(os.Stdout, options, c)
		}
		return nil
	}
	if strings.Contains(filepath.ToSlash(options.Server.Command), "/_npx/") {
		fmt.Fprintf(os.Stderr, "%s is in a cache of npm, which may be emptied: `npm install -g` puts the program where it stays.\n", options.Server.Command)
	}
	if names := notPassedOn(os.Environ(), options.Server); len(names) > 0 {
		fmt.Fprintf(os.Stderr, "%s: set here, but clients do not pass such variables on. Give the server its own with --env NAME=VALUE.\n", strings.Join(names, ", "))
	}
	failed := false
	for _, c := range clients {
		outcomes, err := options.Install(c)
		for _, o := range outcomes {
			tell(os.Stdout, options, o)
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.Title, err)
		}
	}
	if !options.DryRun && f.start && !failed {
		failed = !startOnce(ctx, options)
	}
	if failed {
		return server.ErrReported
	}
	return nil
}

func printSnippet(w io.Writer, options install.Options, c *install.Client) {
	files, err := options.Files(c)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Title, err)
		return
	}
	fmt.Fprintf(w, "%s, in %s:\n%s", c.Title, strings.Join(files, " and "), options.Snippet(c))
	if link := options.Link(c); link != "" {
		fmt.Fprintf(w, "or open %s\n", link)
	}
	fmt.Fprintln(w)
}

// tell reports the changes, or those that would be made.
func tell(w io.Writer, options install.Options, o install.Outcome) {
	would := ""
	if options.DryRun {
		would = "would be "
	}
	fmt.Fprintf(w, "%s: %s\n", o.Client.Title, sentence(options.Name, would, o))
	if options.DryRun {
		fmt.Fprintf(w, "%s", o.Diff)
		if o.Done == install.Added && !options.Force && options.Scope == install.User && len(options.Found(o.Client)) == 0 {
			fmt.Fprintf(w, "  %s is not found here, so that takes --force.\n", o.Client.Title)
		}
	} else if o.Backup != "" {
		fmt.Fprintf(w, "  The file as it was before: %s\n", o.Backup)
	}
	for _, other := range o.Others {
		fmt.Fprintf(w, "  The file has this server as %q too; `%s uninstall --client %s --name %s` takes that out.\n", other, server.OwnCommand(), o.Client.Name, other)
	}
	switch {
	case options.DryRun || o.Done == install.Present || o.Done == install.Absent:
	case o.Done == install.Removed:
		fmt.Fprintf(w, "  Restart %s to drop it.\n", o.Client.Title)
	default:
		fmt.Fprintf(w, "  %s\n", o.Client.Next())
	}
}

func sentence(name, would string, o install.Outcome) string {
	switch o.Done {
	case install.Present:
		return fmt.Sprintf("%s is in %s already, and was left as it is", name, o.File)
	case install.Absent:
		return fmt.Sprintf("%s is not in %s", name, o.File)
	case install.Removed:
		return fmt.Sprintf("%s %s", name, is(would, "taken out of "+o.File))
	case install.Updated:
		return fmt.Sprintf("%s %s", name, is(would, "updated in "+o.File))
	}
	return fmt.Sprintf("%s %s", name, is(would, "added to "+o.File))
}

func is(would, done string) string {
	if would != "" {
		return would + done
	}
	return "is " + done
}

func startOnce(ctx context.Context, options install.Options) bool {
	answer, err := options.Probe(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "The server does not answer when it is started as a client does it: %v\nThe configuration has it all the same; `%s doctor` says what is missing.\n", err, server.OwnCommand())
		return false
	}
	fmt.Printf("The server answers when it is started as a client does it: %s %s, %d tools, in %d ms. Its images come from `%s setup`, once.\n",
		answer.Name, answer.Version, answer.Tools, answer.Took.Round(time.Millisecond).Milliseconds(), server.OwnCommand())
	return true
}

func (f *installFlags) uninstall(options install.Options, clients []*install.Client) error {
	failed := false
	for _, c := range clients {
		outcomes, err := options.Uninstall(c)
		if len(outcomes) == 0 && err == nil {
			fmt.Printf("%s: there is no configuration that it could be in\n", c.Title)
		}
		for _, o := range outcomes {
			if o.Done != install.Absent || !f.all {
				tell(os.Stdout, options, o)
			}
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.Title, err)
		}
	}
	if failed {
		return server.ErrReported
	}
	return nil
}
