package selftest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// tester uses two managers, so that both the attacked session and its neighbour are without a name: the leftovers of a killed self-test are
// removed like any dead server's.
type tester struct {
	o        Options
	attacked *sandbox.Manager
	other    *sandbox.Manager
	answer   Answer
	facts    attacks.Facts
	bait     []func() // functions that remove the bait from the host
	reached  atomic.Int64
	unclosed bool // a session could not be removed when its attack was over
}

// mostFiles is the limit of files that is attacked where the one in force is higher: they are counted in the
// same way, and hundreds of thousands take minutes on a slow machine.
const mostFiles = 10_000

// patiencePart of the time of a run is the time within which an attack must be stopped.
const patiencePart = 2

func newTester(o Options) (*tester, error) {
	c := &o.Config
	c.RunTimeout, c.StartTimeout = max(c.RunTimeout, attackTimeout), max(c.StartTimeout, attackTimeout)
	c.MaxRunTimeout = max(c.MaxRunTimeout, c.RunTimeout)
	c.IdleTimeout, c.Lifetime = max(c.IdleTimeout, time.Hour), max(c.Lifetime, time.Hour)
	c.CodeBytes, c.OutputBytes, c.MaxSessions, c.Prewarm, c.Spares = max(c.CodeBytes, 256<<10), max(c.OutputBytes, 30_000), 1000, nil, 0
	c.VolumeFiles = min(c.VolumeFiles, mostFiles)
	t := &tester{o: o}
	t.facts = attacks.Facts{
		Limits: attacks.Limits{
			MemoryBytes: c.Limits.MemoryBytes, CPUs: c.Limits.CPUs, PIDs: c.Limits.PIDs, TmpBytes: c.Limits.TmpBytes,
			FileBytes: c.Limits.FileBytes, OpenFiles: c.Limits.OpenFiles, VolumeBytes: c.VolumeBytes, VolumeFiles: c.VolumeFiles,
		},
		GVisor: o.Host.GVisor, Rootless: o.Host.Rootless, Pod: o.Host.Pod, Files: o.Host.Files,
		PatienceSeconds: c.RunTimeout.Seconds() / patiencePart,
		Token:           "selftest-" + strings.ToLower(rand.Text()),
		Given:           digests(c.Env),
	}
	for _, m := range c.Mounts {
		place := engine.MountsDir + "/" + m.Name
		t.facts.Mounts = append(t.facts.Mounts, place)
		if m.Writable {
			t.facts.Writable = append(t.facts.Writable, place)
		}
	}
	if err := t.layBait(); err != nil {
		t.removeBait()
		return nil, err
	}
	t.attacked, t.other = sandbox.NewManager(*c), sandbox.NewManager(*c)
	t.answer = o.Server(t.attacked)
	return t, nil
}

// begin starts every language that is on, so that a session that cannot be had is told of at once.
func (t *tester) begin(ctx context.Context) error {
	for language := range t.o.Config.Kernels {
		if res, err := run(ctx, t.attacked, sandbox.RunOptions{Language: language, Code: sum(language)}); err != nil {
			return err
		} else if !isSum(res) {
			return fmt.Errorf("the %s kernel does not work: %s%s", language, res.Status, errorOf(res))
		}
	}
	if t.o.Host.Shown != nil {
		t.o.Host.Shown(t.facts.Pod)
	}
	known, err := t.known(ctx)
	t.facts.Withheld = withheld(t.o.Environ, known)
	return err
}

// sum is code with the result 42.
func sum(language sandbox.Language) string {
	if language == sandbox.Bash { // which returns no values
		return "echo $((6 * 7))"
	}
	return "6 * 7"
}

func isSum(res *sandbox.Result) bool {
	return res.Status == sandbox.Completed && (res.Value != nil && *res.Value == "42" || res.Stdout.Head == "42\n")
}

// known returns the values that containers rightly hold in their environment: those passed through, of the egress and of the images.
func (t *tester) known(ctx context.Context) ([]string, error) {
	c := t.o.Config
	values := slices.Collect(maps.Values(c.Env))
	if c.WayOut != nil {
		for place := range kernel.Languages {
			values = slices.AppendSeq(values, maps.Values(c.WayOut.Environment(sandbox.WayOutPort+place)))
		}
	}
	for _, setting := range c.Kernels {
		image, err := t.o.Engine.Image(ctx, setting.Image)
		if err != nil {
			return nil, err
		}
		for _, entry := range image.Env {
			_, value, _ := strings.Cut(entry, "=")
			values = append(values, value)
		}
	}
	return values, nil
}

// close reports whether all sessions are removed.
func (t *tester) close() bool {
	defer t.removeBait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	other := make(chan bool, 1)
	go func() { other <- t.other.Close(ctx) }()
	attacked := t.attacked.Close(ctx)
	return <-other && attacked && !t.unclosed
}

// run runs code, Python where nothing else is said, to its end, or interrupts it when ctx ends.
func run(ctx context.Context, m *sandbox.Manager, o sandbox.RunOptions) (*sandbox.Result, error) {
	o.Language = cmp.Or(o.Language, sandbox.Python)
	r, err := m.Run(o)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.Done():
		return r.Result()
	case <-ctx.Done():
		r.Interrupt()
		return nil, context.Cause(ctx)
	}
}

func digests(values map[string]string) map[string]string {
	sums := make(map[string]string, len(values))
	for name, value := range values {
		sum := sha256.Sum256([]byte(value))
		sums[name] = hex.EncodeToString(sum[:])
	}
	return sums
}

// unremarkable variables hold the same value in many places, and prove nothing.
var unremarkable = []string{"PATH", "HOME", "PWD", "OLDPWD", "TERM", "LANG", "SHELL", "TMPDIR", "TZ", "USER", "LOGNAME", "HOSTNAME"}

// ordinary values are in the environment of containers, whatever their image is.
var ordinary = []string{"podman", "sandbox", "xterm-256color", "C.UTF-8"}

// minTelling is the least length of a value that cannot occur by accident.
const minTelling = 6

// isTelling reports whether a value, found in a container, comes from the server. Paths are the same on many machines.
func isTelling(value string) bool {
	return len(value) >= minTelling && !strings.HasPrefix(value, "/") && !slices.Contains(ordinary, value)
}

// withheld returns the variables of this process that code must not see.
func withheld(environ, known []string) map[string]string {
	values := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if isTelling(value) && !slices.Contains(unremarkable, name) && !strings.HasPrefix(name, "LC_") && !slices.Contains(known, value) {
			values[name] = value
		}
	}
	return digests(values)
}

// layBait puts things on this host that must not be reached, if the engine is on it.
func (t *tester) layBait() error {
	if t.o.Host.Pod != nil { // which may be on this machine
		return t.putFiles()
	}
	if !t.o.Host.OnHost {
		return nil
	}
	t.facts.Namespaces = make(map[string]string)
	kinds := []string{"net", "pid", "mnt", "uts", "ipc", "cgroup"}
	if t.o.Host.Rootless {
		kinds = append(kinds, "user")
	}
	for _, kind := range kinds {
		if own, err := os.Readlink("/proc/self/ns/" + kind); err == nil {
			t.facts.Namespaces[kind] = own
		}
	}
	if t.o.Host.Socket != "" {
		t.facts.Sockets = append(t.facts.Sockets, t.o.Host.Socket)
	}
	for _, network := range [][2]string{{"tcp4", "127.0.0.1"}, {"tcp6", "::1"}} {
		if err := t.listen(network[0], net.JoinHostPort(network[1], "0")); err != nil && network[0] == "tcp4" {
			return err
		}
	}
	if err := t.listen("unix", "@"+t.facts.Token); err == nil {
		t.facts.Abstract = append(t.facts.Abstract, t.facts.Token)
	}
	return t.putFiles()
}

// putFiles puts files beside the sessions, not among them.
func (t *tester) putFiles() error {
	for _, dir := range []string{filepath.Dir(t.o.Config.StateDir), os.TempDir()} {
		if err := t.putFile(dir); err != nil {
			return err
		}
	}
	return nil
}

// listen accepts connections, and says nothing on them.
func (t *tester) listen(network, address string) error {
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	t.bait = append(t.bait, func() { _ = listener.Close() })
	if tcp, isTCP := listener.Addr().(*net.TCPAddr); isTCP {
		t.facts.Listeners = append(t.facts.Listeners, [2]any{tcp.IP.String(), tcp.Port})
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.reached.Add(1)
			_ = conn.Close()
		}
	}()
	return nil
}

// putFile puts a file where anybody who gets there may read it.
func (t *tester) putFile(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, t.facts.Token)
	if err := os.WriteFile(path, []byte(t.facts.Token), 0o644); err != nil { //nolint:gosec // it is bait
		return err
	}
	t.bait = append(t.bait, func() { _ = os.Remove(path) })
	t.facts.Files = append(t.facts.Files, path)
	return nil
}

func (t *tester) removeBait() {
	for _, remove := range t.bait {
		remove()
	}
}
