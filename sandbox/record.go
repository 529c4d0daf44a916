package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// record is what a later server must know of a named session to take it up again. It is a file that
// only this user can read, in a folder beside the session's lock, and is written by the lock's holder.
type record struct {
	Created time.Time `json:"created"`
	// Token proves to a supervisor that it is a server that speaks: code in the sandbox reaches the
	// same socket.
	Token string `json:"token"`
	// Settings tells by language what the running container was made with, so that a server with
	// other limits or secrets does not go on with it.
	Settings map[Language]string `json:"settings,omitempty"`
	// IdleSeconds is how long the session stays when nobody uses it, by the server that had it last.
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
}

// idleTimeout is how long a session stays that nobody uses: as its last server had it, or else as given.
func idleTimeout(stateDir, id string, otherwise time.Duration) time.Duration {
	r := loadRecord(sessionFolder(stateDir, id))
	if r == nil || r.IdleSeconds <= 0 {
		return otherwise
	}
	return time.Duration(r.IdleSeconds * float64(time.Second))
}

// sessionFolder is where a session's record and history are kept.
func sessionFolder(stateDir, id string) string { return filepath.Join(stateDir, id) }

const recordFile = "session.json"

func newRecord() *record {
	return &record{Created: time.Now().UTC().Truncate(time.Millisecond), Token: rand.Text(), Settings: make(map[Language]string)}
}

// loadRecord gives nil where there is none that can be used.
func loadRecord(folder string) *record {
	text, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return nil
	}
	r := newRecord()
	if json.Unmarshal(text, r) != nil || r.Token == "" || r.Settings == nil {
		return nil
	}
	return r
}

// save replaces the file at once, so that a server that is killed leaves the old one or the new one.
func (r *record) save(folder string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("session folder: %w", err)
	}
	file, err := os.CreateTemp(folder, recordFile+".*")
	if err != nil {
		return fmt.Errorf("session record: %w", err)
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(folder, recordFile))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("session record: %w", err)
	}
	return nil
}

// settingsKey is the same for containers that were made with the same image, limits and secrets. It is
// for the user's eyes alone, as the token in the same file is: who can read it can try guesses at a secret.
func (s *session) settingsKey(setting KernelConfig, image ImageInfo) (string, error) {
	text, err := json.Marshal([]any{
		s.record.Token, image.ID, setting.Image, setting.Command,
		s.config.Limits, s.config.Env, s.config.VolumeBytes, s.config.VolumeFiles, s.wireLimits(), s.config.IdleTimeout,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
