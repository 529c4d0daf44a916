//go:build linux

package kernels

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bashkernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
)

// interpreters has a row for each language; another one is a row here, a kernel and an image.
var interpreters = []*kernelproc.Language{
	{
		Name: "python", Mark: 1, Interpreter: "python3", TakesPipes: true, HasZygote: true, StartsSlowly: true,
		Arguments:   func(program, role string) []string { return []string{program, role} },
		Environment: threadLimits(),
	},
	{
		Name: "javascript", Mark: 2, Interpreter: "node", HasWatcher: true, Again: 100 * time.Millisecond, Unheard: 3, StartsSlowly: true,
		TrustVariable: "NODE_EXTRA_CA_CERTS",
		Arguments:     func(program, role string) []string { return append(nodeFlags(), program, role) },
	},
	{
		Name: "bash", Mark: 3, Interpreter: "bash", Adapt: bashkernel.Adapt, Without: bashkernel.Without, KillsPrograms: true, EndsWithCode: true,
		Arguments: func(_, _ string) []string { return bashkernel.Arguments },
	},
}

// Program is the source of a language's kernels.
type Program struct {
	language *kernelproc.Language
	path     string
}

// ReadPrograms reads the arguments of process 1.
func ReadPrograms(args []string) (programs []Program, err error) {
	for _, arg := range args {
		name, path, _ := strings.Cut(arg, "=")
		p := Program{path: path}
		for _, l := range interpreters {
			if l.Name == name {
				p.language = l
			}
		}
		if p.language == nil {
			return nil, errors.New("no language is called " + name)
		}
		programs = append(programs, p)
	}
	if programs == nil {
		err = errors.New("usage: supervisor LANGUAGE=PROGRAM..., or supervisor join")
	}
	return programs, err
}

// threadLimits are for the thread pools of numerical libraries, which count the host's processors otherwise; their
// threads count against the limit of processes.
func threadLimits() []string {
	var env []string
	for _, name := range []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS"} {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+strconv.Itoa(runtime.GOMAXPROCS(0)))
		}
	}
	return env
}

// nodeFlags are of Node 20 and later. Code that is stopped in the middle of a callback leaves the stack of async ids
// behind; with the check on, Node aborts the process over that.
func nodeFlags() []string {
	flags := []string{"--no-force-async-hooks-checks"}
	if heap := heapMegabytes(); heap > 0 {
		flags = append(flags, "--max-old-space-size="+strconv.FormatInt(heap, 10))
	}
	return flags
}

// heapMegabytes is all of the container's memory. The kernel's watcher stops a run long before that; V8 collects garbage
// over and over as its heap comes near its limit, and hears of nothing meanwhile. 0 leaves Node's default.
func heapMegabytes() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil || limit <= 0 || limit > math.MaxInt64/2 {
			return 0
		}
		return max(64, limit>>20)
	}
	return 0
}
