// The list of system calls.

package podman

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// seccompJSON is an allow-list, with a reason for each group. Calls outside of it answer ENOSYS, as an older kernel would, so that C libraries
// and runtimes take their older path. Calls that are refused on purpose and have long been everywhere answer EPERM. Some are listed that the
// default refuses too: leaving them out is a decision.
//
// Only the machine's own 64-bit calls exist: the 32-bit and x32 tables, a second way in to everything, are not allowed at all. All arguments
// of a rule must match; for another rule of the same call to match is enough. What allows compares by MASKED_EQ the low 32 bits, which the
// kernel reads of an int: one of the upper bits would get around a comparison of all 64. Code may lower its own limits and priorities, and
// nobody else's: with no descriptors left, or hardly a processor's time, process 1 would miss the code's actions. No thread owns descriptors
// apart from its process: /proc, where process 1 looks for nameless files, lists only one thread's. Socket protocols beside TCP and UDP, even
// without a network, would make the host load their modules.
//
//go:embed seccomp.json
var seccompJSON []byte

// SeccompProfile is the profile of every container, as JSON. It is the same on every machine; a kernel or library ignores names
// that it does not know.
func SeccompProfile() []byte { return seccompJSON }

// seccompProfile is the part of a profile that changes under gVisor.
type seccompProfile struct {
	DefaultAction   string           `json:"defaultAction"`
	DefaultErrnoRet uint             `json:"defaultErrnoRet"`
	ArchMap         []map[string]any `json:"archMap"`
	Syscalls        []seccompRule    `json:"syscalls"`
}

type seccompRule struct {
	Names    []string          `json:"names"`
	Action   string            `json:"action"`
	Args     []json.RawMessage `json:"args"`
	Comment  string            `json:"comment"`
	ErrnoRet *uint             `json:"errnoRet,omitempty"`
}

// gVisorProfile is for gVisor. Its older versions answer EPERM to every refused call, so libraries would not fall back to clone: clone3
// could only make namespaces of gVisor's own kernel. They have own names of newfstatat and pselect6.
func gVisorProfile() []byte {
	var profile seccompProfile
	if err := json.Unmarshal(seccompJSON, &profile); err != nil {
		panic(err) // it is embedded
	}
	at := slices.IndexFunc(profile.Syscalls, func(r seccompRule) bool { return r.Names[0] == "clone3" })
	profile.Syscalls[at].Names = []string{"clone3", "fstatat", "pselect"}
	profile.Syscalls[at].Action, profile.Syscalls[at].ErrnoRet = "SCMP_ACT_ALLOW", nil
	text, err := json.MarshalIndent(profile, "", "  ")
	if err != nil {
		panic(err) // of what was read
	}
	return text
}
