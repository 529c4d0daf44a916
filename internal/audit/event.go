// Package audit keeps the log that nobody can edit unseen: JSON lines, each with the hash of the one before.
package audit

import "time"

// What an Event tells of.
const (
	KindCall    = "call"    // of a tool, or a request of REST or the page
	KindRun     = "run"     // code that ran
	KindNetwork = "network" // a request of code
	KindQuery   = "query"   // of a database
	KindFile    = "file"    // that left a session
	KindRefusal = "refusal"
	KindSignIn  = "sign-in"
	KindPolicy  = "policy" // a change of what principals may do, or of their tokens
	KindServer  = "server" // its start and end
)

// Event is a line of the log. The zero value of a field is left out. Texts are clipped and masked by whoever writes them.
type Event struct {
	Time      time.Time // zero: now
	Kind      string
	Principal string // empty: the user whose server it is
	Source    string // how the principal has shown who it is
	Address   string // where the request came from
	Session   string
	Run       string
	Tool      string // or the method and route of a request
	// Outcome is "success", or the code of what refused or failed.
	Outcome string
	// Code is a run's, and CodeHash its SHA-256 in hexadecimal; the log has one of both.
	Code, CodeHash string
	Detail         map[string]any // what else there is to say: host, method, path, bytes, rows, milliseconds
}

// Recorder takes events. Its method may be called by any number of goroutines, and does not wait for a disk. The zero Recorder of
// this package is nil: nothing is recorded.
type Recorder interface{ Record(Event) }
