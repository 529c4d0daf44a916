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

// capital stands before a letter that is a capital in the id: names that differ in case alone are one file on macOS and Windows.
const capital = "+"

// fileName returns the common beginning of a session's file names.
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

// idOf returns the id with this fileName, if there is one.
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

// Folder is the folder of a session's record and history.
func Folder(dir, id string) string { return filepath.Join(dir, fileName(id)) }

// Record is a later server's information to take over a named session. The lock's holder writes it.
type Record struct {
	Created time.Time `json:"created"`
	// Place is the spare id on the engine of a session that took a spare; empty: its own id.
	Place string `json:"place,omitempty"`
	// Unnamed: the session ends with its server; the record only tells its Place.
	Unnamed bool `json:"unnamed,omitempty"`
	// Token proves to a supervisor that a server speaks: code in the sandbox reaches the same socket.
	Token string `json:"token"`
	// Settings maps a language to a key of its running container's settings, so that a server with other limits or secrets does not
	// go on with it. Empty: the container ended in order.
	Settings map[string]string `json:"settings,omitempty"`
	// Limits are the session's own; nil: the server's apply.
	Limits *Limits `json:"limits,omitempty"`
	// Times are the session's own; nil: the server's apply.
	Times *Times `json:"times,omitempty"`
	// IdleSeconds and KeepSeconds are how long the session's kernels and files stay unused, by its last server.
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
	KeepSeconds float64 `json:"keep_seconds,omitempty"`
	// FreezeSeconds bounds its kernels' snapshots; 0: they write none.
	FreezeSeconds float64 `json:"freeze_seconds,omitempty"`
	// KeepLimit is that server's bound on all sleeping sessions together.
	KeepLimit int64 `json:"keep_limit,omitempty"`
	// SizeBytes is the size of its files when a server last released it; 0: unknown.
	SizeBytes int64 `json:"size_bytes,omitempty"`
	// HistoryBytes is the size of its history then.
	HistoryBytes int64 `json:"history_bytes,omitempty"`
	// Awake is the start of the session's present kernels.
	Awake time.Time `json:"awake,omitzero"`
	// Authority is the state that Config.WayOut keeps with the session: the key of a certificate authority that its code trusts.
	Authority []byte `json:"authority,omitempty"`
}

// Limits bound one session. Zero: no limit of its own.
type Limits struct {
	MemoryBytes int64         `json:"memory_bytes,omitempty"` // of each container, swap included
	CPUs        float64       `json:"cpus,omitempty"`
	RunTimeout  time.Duration `json:"run_timeout_ns,omitempty"` // the longest time of a run
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

// LoadRecord returns the record of a session; nil if there is no usable one.
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

// Places returns the owner of each Record.Place, of all sessions, including the tenants' if it is the server's own directory.
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

// Save replaces the session's record, and makes its folder if absent.
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

// Stay is how long a session's kernels, and then its files, stay after its last use. Freeze bounds the kernels' snapshots before
// their end.
type Stay struct{ Idle, Keep, Freeze time.Duration }

// Stay returns how long the session stays: by its last server's settings, or else as given. The record may be nil.
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

// Pin makes a session stay however long nobody uses it, or ends that. It takes no lock: a server may hold the session open.
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

// IsPinned reports whether the session is pinned.
func IsPinned(dir, id string) bool {
	_, err := os.Lstat(filepath.Join(Folder(dir, id), pinFile))
	return err == nil
}

// NewSuffix ends the name of an incomplete file or folder. A killed process may leave it.
const NewSuffix = ".new"

// WriteFile writes a file under a temporary name and renames it, so that a killed process leaves the old file or the new one. The
// caller holds the session's lock: nothing else writes this file.
func WriteFile(path string, content []byte) error {
	return writeFile(path, content, func(*os.File) error { return nil })
}

// WriteFileDurably is WriteFile that leaves the whole new file even after the machine loses its power.
func WriteFileDurably(path string, content []byte) error {
	if err := writeFile(path, content, (*os.File).Sync); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	_ = folder.Sync() // some file systems, and Windows, sync no folder
	return nil
}

// writeFile is WriteFile that calls finish before the rename.
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
