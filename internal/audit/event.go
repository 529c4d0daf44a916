// Package audit keeps the log that nobody can edit unseen: JSON lines, each with the hash of the one before.
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

// Event is a line of the log. Zero fields are left out. The Log clips and masks texts.
type Event struct {
	Time time.Time // zero: now
	Kind string
	// Action distinguishes several actions of a kind: Launch and Terminate of a run, Start and Stop of a server.
	Action    string
	Principal string // empty: the owner
	Source    string // the principal's kind of credential
	Address   string // the origin of the request
	Session   string
	Run       string
	Tool      string // or the method and route of a request
	// Outcome is Success, or the code of a refusal or failure; empty: not known yet.
	Outcome string
	// Code is a run's, and CodeHash its SHA-256 in hexadecimal; a line contains one of the two.
	Code, CodeHash string
	// Detail holds all other facts, and belongs to the Log once recorded. Some names become fields of the line: host, method, path,
	// http_status, sent, received (bytes), ms, file, size.
	Detail map[string]any

	// Mask removes secrets of this event alone; may be nil.
	Mask *secrets.Masker
}

// Recorder takes events. Record is safe for several goroutines, and does not wait for a disk. A nil Recorder means that nothing is
// recorded.
type Recorder interface{ Record(Event) }
