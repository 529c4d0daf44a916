// Package audit keeps the log that nobody can edit unseen: JSON lines, each with the hash of the one before.
//
// Start with Open, whose Log is the Recorder of a server; Verify and Read are for who looks at what it wrote. Any number of
// processes may write to one file: they take turns by a lock, and their lines are one chain.
package audit

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// What an Event tells of.
const (
	KindCall    = "call"    // of a tool
	KindRun     = "run"     // code, as it begins and as it ends
	KindNetwork = "network" // a request of code
	KindQuery   = "query"   // of a database
	KindFile    = "file"    // that left a session
	KindRefusal = "refusal"
	KindSignIn  = "sign-in"
	KindPolicy  = "policy" // a change of what principals may do, or of their tokens
	KindServer  = "server" // its start and end
	KindLog     = "log"    // what befell the log itself
)

// Kinds are all of them.
var Kinds = []string{KindCall, KindRun, KindNetwork, KindQuery, KindFile, KindRefusal, KindSignIn, KindPolicy, KindServer, KindLog}

// Success is the Outcome of what was done as it was asked for.
const Success = "success"

// Event is a line of the log. The zero value of a field is left out. Texts are clipped and masked by the Log.
type Event struct {
	Time time.Time // zero: now
	Kind string
	// Action says what was done, where the kind has several: Launch and Terminate of a run, Start and Stop of a server.
	Action    string
	Principal string // empty: the user whose server it is
	Source    string // how the principal has shown who it is
	Address   string // where the request came from
	Session   string
	Run       string
	Tool      string // or the method and route of a request
	// Outcome is Success, or the code of what refused or failed; empty: not known yet.
	Outcome string
	// Code is a run's, and CodeHash its SHA-256 in hexadecimal; the log has one of both.
	Code, CodeHash string
	// Detail is what else there is to say, and the Log's own from then on. Some names have places of their own in the line: host,
	// method, path, http_status, sent, received (bytes), ms, file, size.
	Detail map[string]any

	// Mask takes out the secrets that this event alone may have; may be nil.
	Mask *secrets.Masker
}

// Recorder takes events. Its method may be called by any number of goroutines, and does not wait for a disk. The zero Recorder of
// this package is nil: nothing is recorded.
type Recorder interface{ Record(Event) }
