package state

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

var id = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidID reports whether a text can be the id of a session or of a run: it is safe as a part of a file's name.
func ValidID(text string) bool { return id.MatchString(text) }

// capital is before a letter that is a capital in the id: names that differ in case alone are one file on macOS and Windows.
const capital = "+"

// fileName returns how the names of a session's files begin.
func fileName(id string) string {
	var name strings.Builder
	for _, r := range id {
		if 'A' <= r && r <= 'Z' {
			name.WriteString(capital)
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// idOf returns the id whose fileName is name, where there is one.
func idOf(name string) string {
	first, parts, _ := strings.Cut(name, capital)
	id := first
	for part := range strings.SplitSeq(parts, capital) {
		if part != "" {
			id += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return id
}

func lockPath(dir, id string) string { return filepath.Join(dir, fileName(id)+lockSuffix) }

// NewID returns an id with 65 random bits behind the prefix.
func NewID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:13]) }

// Folder is where a session's record and history are.
func Folder(dir, id string) string { return filepath.Join(dir, fileName(id)) }

// Record is what a later server needs to take a named session up again. The lock's holder writes it.
type Record struct {
	Created time.Time `json:"created"`
	// Place is the id that what the session has on the engine goes by, of a container that was kept ready; empty: its own.
	Place string `json:"place,omitempty"`
	// Unnamed: the session ends with its server, and has a record for its Place alone.
	Unnamed bool `json:"unnamed,omitempty"`
	// Token proves to a supervisor that a server speaks: code in the sandbox reaches the same socket.
	Token string `json:"token"`
	// Settings has by language a key of what the running container was made with, so that a server with
	// other limits or secrets does not go on with it. Empty: the container was ended in order.
	Settings map[string]string `json:"settings,omitempty"`
	// Limits are the session's own; nil: it has the server's.
	Limits *Limits `json:"limits,omitempty"`
	// Times are the session's own; nil: it has the server's.
	Times *Times `json:"times,omitempty"`
	// IdleSeconds and KeepSeconds are how long the session's kernels and its files stay unused, by the server that had it last.
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
	KeepSeconds float64 `json:"keep_seconds,omitempty"`
	// FreezeSeconds is how long its kernels may write their variables; 0: they do not.
	FreezeSeconds float64 `json:"freeze_seconds,omitempty"`
	// KeepLimit is what that server lets all take that sleep.
	KeepLimit int64 `json:"keep_limit,omitempty"`
	// SizeBytes is what its files took when a server last let go of it; 0: not known.
	SizeBytes int64 `json:"size_bytes,omitempty"`
	// HistoryBytes is what its history took then.
	HistoryBytes int64 `json:"history_bytes,omitempty"`
	// Awake is since when the session has had its kernels.
	Awake time.Time `json:"awake,omitzero"`
	// Authority is what Config.WayOut keeps with the session: the key of a certificate authority that its code trusts.
	Authority []byte `json:"authority,omitempty"`
}

// Limits bound one session. Zero: no limit of its own.
type Limits struct {
	MemoryBytes int64         `json:"memory_bytes,omitempty"` // of each container, swap included
	CPUs        float64       `json:"cpus,omitempty"`
	RunTimeout  time.Duration `json:"run_timeout_ns,omitempty"` // the longest that a run may take
}

// Times are when one session ends. Zero: no time of its own.
type Times struct {
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"` // after which it ends unused
	Lifetime    time.Duration `json:"lifetime_ns,omitempty"`     // after which it ends
}

const recordFile = "session.json"

// NewRecord returns the record of a session that begins now.
func NewRecord() *Record {
	return &Record{Created: time.Now().UTC().Truncate(time.Millisecond), Token: rand.Text(), Settings: make(map[string]string)}
}

// LoadRecord returns the record of a session; nil where there is none that can be used.
func LoadRecord(dir, id string) *Record {
	text, err := os.ReadFile(filepath.Join(Folder(dir, id), recordFile))
	if err != nil {
		return nil
	}
	r := NewRecord()
	if json.Unmarshal(text, r) != nil || r.Token == "" || r.Settings == nil {
		return nil
	}
	return r
}

// Owner is the session that a Place belongs to.
type Owner struct {
	Tenant string // empty: the session is of the directory itself
	ID     string
	Named  bool
}

// Places returns whose each Record.Place is, of all sessions, in the server's own directory of the tenants' too.
func Places(dir string) map[string]Owner {
	owners := make(map[string]Owner)
	for _, key := range append(Tenants(dir), "") {
		addPlaces(owners, TenantDir(dir, key), key)
	}
	return owners
}

func addPlaces(owners map[string]Owner, dir, tenant string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		id := idOf(entry.Name())
		if !entry.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name(), recordFile))
		if err != nil || !bytes.Contains(text, []byte(`"place"`)) { // most are read no further
			continue
		}
		if r := LoadRecord(dir, id); r != nil && r.Place != "" {
			owners[r.Place] = Owner{tenant, id, !r.Unnamed}
		}
	}
}

// Save replaces the session's record, and makes its folder where that is absent.
func (r *Record) Save(dir, id string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	folder := Folder(dir, id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("session folder: %w", err)
	}
	// Synced, because it says how long the session's files stay.
	if err := writeFile(filepath.Join(folder, recordFile), text, (*os.File).Sync); err != nil {
		return fmt.Errorf("session record: %w", err)
	}
	return nil
}

// HasKernels reports whether servers left kernels, which may have ended by themselves since.
func (r *Record) HasKernels() bool {
	for _, key := range r.Settings {
		if key != "" {
			return true
		}
	}
	return false
}

// Stay is how long what a session has stays after its last use: its kernels, and then its files.
// Freeze is how long the kernels may write their variables before they end.
type Stay struct{ Idle, Keep, Freeze time.Duration }

// Stay returns how long the session stays: as its last server had it, or else as given. The record may be nil.
func (r *Record) Stay(otherwise Stay) Stay {
	stay := otherwise
	if r != nil && r.IdleSeconds > 0 {
		stay.Idle = seconds(r.IdleSeconds)
	}
	if r != nil && r.KeepSeconds > 0 {
		stay.Keep = seconds(r.KeepSeconds)
	}
	if r != nil {
		stay.Freeze = max(stay.Freeze, seconds(r.FreezeSeconds))
	}
	stay.Keep = max(stay.Keep, stay.Idle)
	return stay
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

const pinFile = "pinned"

// Pin has a session stay however long nobody uses it, or no longer. It takes no lock: a server may have the session open.
func Pin(dir, id string, pinned bool) error {
	path := filepath.Join(Folder(dir, id), pinFile)
	if pinned {
		return os.WriteFile(path, nil, 0o600)
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// IsPinned reports whether Pin has the session stay.
func IsPinned(dir, id string) bool {
	_, err := os.Lstat(filepath.Join(Folder(dir, id), pinFile))
	return err == nil
}

// NewSuffix is behind the name of what is not whole yet. A process that was killed may leave it.
const NewSuffix = ".new"

// WriteFile writes a file under a temporary name and renames it, so that the file is the old one or the new one when
// the process is killed. The caller has the session's lock: nothing else writes this file.
func WriteFile(path string, content []byte) error {
	return writeFile(path, content, func(*os.File) error { return nil })
}

// WriteFileDurably is WriteFile whose file is also whole, and the new one, after the machine has lost its power.
func WriteFileDurably(path string, content []byte) error {
	return writeFile(path, content, (*os.File).Sync)
}

// writeFile is WriteFile that calls finish before the file has its name.
func writeFile(path string, content []byte, finish func(*os.File) error) error {
	file, err := os.OpenFile(path+NewSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, finish(file), file.Close()); err == nil {
		err = os.Rename(path+NewSuffix, path)
	}
	if err != nil {
		_ = os.Remove(path + NewSuffix)
	}
	return err
}
