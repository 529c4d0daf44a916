// Package attacks holds programs that attack the sandbox from inside, one file each: those that need
// no more than a container, in container/, and those that need a session around them, in session/.
//
// Load one and give its Program to an interpreter or to a session; ParseVerdict reads its output.
// The first words of a file name the promise and the attempt.
package attacks

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

//go:embed harness.py container session
var files embed.FS

// Attack is one program.
type Attack struct {
	Name    string // of its file, without the language
	Promise string // the promise
	Tried   string // its attempt; empty for a program that is no attack itself
	source  string
}

// Limits are the limits in force, in an attack's own terms.
type Limits struct {
	MemoryBytes int64   `json:"memory_bytes"`
	CPUs        float64 `json:"cpus"`
	PIDs        int64   `json:"pids"`
	TmpBytes    int64   `json:"tmp_bytes"`
	FileBytes   int64   `json:"file_bytes"`
	OpenFiles   int64   `json:"open_files"`
	VolumeBytes int64   `json:"volume_bytes"`
	VolumeFiles int64   `json:"volume_files"`
}

// Facts describe an attack's target. Missing facts are not attacked.
type Facts struct {
	Limits Limits `json:"limits"`
	// GVisor reports that the kernel in here is gVisor's and not the host's.
	GVisor bool `json:"gvisor"`
	// Pod describes the differences in a pod of Kubernetes; nil: it is none.
	Pod *Pod `json:"pod"`
	// Rootless reports that Podman runs as an ordinary user, if that cannot be seen from inside.
	Rootless bool `json:"rootless"`
	// PatienceSeconds is the time after which an attack concludes that nothing stops it.
	PatienceSeconds float64 `json:"patience_seconds"`
	// Namespaces are the host's own, as /proc/self/ns names them.
	Namespaces map[string]string `json:"namespaces"`
	Listeners  [][2]any          `json:"listeners"` // address and port of listeners outside
	Egress     Egress            `json:"way_out"`
	Abstract   []string          `json:"abstract"` // names of abstract sockets that listen outside
	Sockets    []string          `json:"sockets"`  // paths of the engine's own
	Files      []string          `json:"files"`    // of the host
	Given      map[string]string `json:"given"`    // variables that must be there, with the SHA-256 of their values
	Withheld   map[string]string `json:"withheld"` // variables that must not, likewise
	Token      string            `json:"token"`    // marks values of another session, or forged ones
	PID        int               `json:"pid"`
	Volume     string            `json:"volume"`    // of another session
	Mounts     []string          `json:"mounts"`    // folders of the host that are meant to be there
	Writable   []string          `json:"writable"`  // those of them that code may write to
	Forgery    string            `json:"forgery"`   // the change to the session's snapshot
	Neighbour  []string          `json:"neighbour"` // another session's user and user namespace, as it tells them
}

// Pod describes a pod of Kubernetes to an attack.
type Pod struct {
	Seccomp  bool     `json:"seccomp"`   // the profile is this program's own
	Tasks    int64    `json:"tasks"`     // the most processes and threads of its user
	OwnBytes int64    `json:"own_bytes"` // of all temporary folders together
	Near     [][2]any `json:"near"`      // address and port of listeners in the cluster
	Policy   bool     `json:"policy"`    // there is more than loopback, and a policy forbids it
}

// Egress is the way of code to the outside, by the port of loopback that leads to the server.
type Egress struct {
	Port  int      `json:"port"`  // 0: nobody listens
	Open  bool     `json:"open"`  // to any public address
	Hosts []string `json:"hosts"` // that are allowed, as the settings name them
	// Secrets are those of --secret.
	Secrets []Secret `json:"secrets"`
}

// Secret is a value that code uses and must not see.
type Secret struct {
	Variable string   `json:"variable"` // which holds the placeholder
	Hosts    []string `json:"hosts"`    // that the value is for
	Forms    [][2]any `json:"forms"`    // the length and the SHA-256 of each way to write the value
}

// NewSecret hides a value in its sums.
func NewSecret(variable, value string, hosts ...string) Secret {
	s := Secret{Variable: variable, Hosts: hosts}
	forms := []string{value, base64.RawStdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value)), url.QueryEscape(value)}
	for _, form := range forms {
		sum := sha256.Sum256([]byte(form))
		s.Forms = append(s.Forms, [2]any{len(form), hex.EncodeToString(sum[:])})
	}
	return s
}

// Container returns a program that needs no more than a container.
func Container(name string) (Attack, error) { return load("container", name) }

// Session returns a program that needs a session.
func Session(name string) (Attack, error) { return load("session", name) }

func load(folder, name string) (Attack, error) {
	text, err := files.ReadFile(path.Join(folder, name+".py"))
	if err != nil {
		return Attack{}, err
	}
	a := Attack{Name: name, source: string(text)}
	heading, _, _ := strings.Cut(strings.TrimPrefix(a.source, `"""`), `"""`)
	a.Promise, a.Tried, _ = strings.Cut(strings.TrimSpace(heading), "\n\n")
	if a.Promise == "" {
		return Attack{}, fmt.Errorf("%s does not say what must hold", name)
	}
	a.Tried = strings.TrimSuffix(strings.TrimPrefix(a.Tried, "Tried: "), ".")
	return a, nil
}

// Program is the attack as one source, with everything that it needs.
func (a Attack) Program(facts Facts) (string, error) {
	text, err := json.Marshal(facts.filled())
	if err != nil {
		return "", err
	}
	harness, err := files.ReadFile("harness.py")
	if err != nil {
		return "", err
	}
	// Quote's escapes mean the same in Python.
	return fmt.Sprintf("%s\n\nattack(%s, json.loads(%s))\n", harness, strconv.Quote(a.source), strconv.Quote(string(text))), nil
}

// filled replaces nil, which JSON would make null.
func (f Facts) filled() Facts {
	for _, list := range []*[]string{&f.Abstract, &f.Sockets, &f.Files, &f.Mounts, &f.Writable, &f.Neighbour, &f.Egress.Hosts} {
		if *list == nil {
			*list = []string{}
		}
	}
	for _, m := range []*map[string]string{&f.Namespaces, &f.Given, &f.Withheld} {
		if *m == nil {
			*m = map[string]string{}
		}
	}
	if f.Listeners == nil {
		f.Listeners = [][2]any{}
	}
	if f.Pod != nil && f.Pod.Near == nil {
		pod := *f.Pod
		pod.Near, f.Pod = [][2]any{}, &pod
	}
	if f.Egress.Secrets == nil {
		f.Egress.Secrets = []Secret{}
	}
	return f
}

// Outcome is the result of an attack.
type Outcome string

// The outcomes. Unenforced says that the machine is a tighter bound than the sandbox's own, NotTried
// that the attack could not be made.
const (
	Held       Outcome = "held"
	GaveWay    Outcome = "gave way"
	Unenforced Outcome = "not enforced"
	NotTried   Outcome = "not tried"
)

// Verdict is an attack's own report.
type Verdict struct {
	Outcome  Outcome        `json:"outcome"`
	Why      string         `json:"why"`
	Fix      string         `json:"fix"`      // for a promise that is not enforced, if there is one
	Refusals map[string]int `json:"refusals"` // how often each error was met
	Notes    []string       `json:"notes"`
}

// ErrNoVerdict reports that an attack ended without one.
var ErrNoVerdict = errors.New("the attack ended without a verdict")

// ParseVerdict reads the last line of an attack's stdout.
func ParseVerdict(output string) (Verdict, error) {
	output = strings.TrimSpace(output)
	last := output[strings.LastIndexByte(output, '\n')+1:]
	var v Verdict
	if err := json.Unmarshal([]byte(last), &v); err != nil || v.Outcome == "" {
		return Verdict{}, ErrNoVerdict
	}
	return v, nil
}
