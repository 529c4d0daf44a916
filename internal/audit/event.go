// Package audit keeps the log that nobody can edit unseen: JSON lines, each with the hash of the one before, in a file that only grows.
//
// Start with Open; its Log is the Recorder of a server. Verify and Read are for readers of the file. Any number of processes may write to
// one file: they take turns by a lock, and their lines form one chain.
package audit

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// Kinds of events.
const (
	KindCall    = "call"    // of a tool
	KindRun     = "run"     // code, as it begins and as it ends
	KindNetwork = "network" // a request of code
	KindQuery   = "query"   // of a database
	KindFile    = "file"    // a file that left a session
	KindRefusal = "refusal"
	KindSignIn  = "sign-in"
	KindPolicy  = "policy" // a change of principals' rights or tokens
	KindServer  = "server" // its start and end
	KindLog     = "log"    // an event of the log itself
)

// Kinds lists all kinds.
var Kinds = []string{KindCall, KindRun, KindNetwork, KindQuery, KindFile, KindRefusal, KindSignIn, KindPolicy, KindServer, KindLog}

// Success is the Outcome of a request that was carried out.
const Success = "success"

// Event is what a line tells. Zero fields are left out. The Log clips and masks texts.
type Event struct {
	Time time.Time `json:"time"` // zero: now
	Kind string    `json:"kind"`
	// Action distinguishes several actions of a kind: Launch and Terminate of a run, Start and Stop of a server.
	Action    string `json:"action,omitempty"`
	Principal string `json:"principal,omitempty"` // empty: the owner
	Source    string `json:"source,omitempty"`    // the principal's kind of credential
	Address   string `json:"address,omitempty"`   // the origin of the request
	Session   string `json:"session,omitempty"`
	Run       string `json:"run,omitempty"`
	Tool      string `json:"tool,omitempty"` // or the method and route of a request
	// Outcome is Success, or the code of a refusal or failure; empty: not known yet.
	Outcome string `json:"outcome,omitempty"`
	// Code is a run's, and CodeHash its SHA-256 in hexadecimal; a line contains one of the two.
	Code     string `json:"code,omitempty"`
	CodeHash string `json:"code_sha256,omitempty"`
	// Detail holds all other facts, and belongs to the Log once recorded: host, method, path, http_status, sent and received (bytes), ms,
	// file, size, and more.
	Detail map[string]any `json:"detail,omitempty"`

	// Mask removes secrets of this event alone; may be nil.
	Mask *secrets.Masker `json:"-"`
}

// Recorder takes events. Record is safe for several goroutines, and does not wait for a disk. A nil Recorder means that nothing is
// recorded.
type Recorder interface{ Record(Event) }
