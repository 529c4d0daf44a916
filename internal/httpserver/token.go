// The bearer token: made, read from its file, checked.

package httpserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// minToken is a token's least length, in bytes.
const minToken = 16

// OwnToken returns the token in a file that only this user can read, and makes both if there are none. A file that
// others can read or change is an error.
func OwnToken(path string) (string, error) {
	token, err := readOwn(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, filepath.Base(path)+".*") // for this user alone
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(rand.Text() + rand.Text() + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	// If another server made the file meanwhile, its token counts.
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readOwn(path)
}

func readOwn(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file; remove it", path)
	case state.IsAnothers(info):
		return "", fmt.Errorf("%s belongs to another user; remove it, or name a file with --http-token-file", path)
	case info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return "", fmt.Errorf("%s can be read or changed by others (mode %04o), so its token may be known; remove it, and another one is made", path, info.Mode().Perm())
	}
	return ReadToken(path)
}

// ReadToken returns the token in a file that the user names.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return token, nil
}

// CheckToken refuses a token that a client cannot send, or anybody can guess.
func CheckToken(token string) error {
	if len(token) < minToken {
		return fmt.Errorf("the token has %d characters, and must have at least %d", len(token), minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token must be one word of ASCII characters")
	}
	return nil
}
