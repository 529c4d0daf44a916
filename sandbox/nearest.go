package sandbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"
)

// nearestPatience bounds the search for a file to name in an answer.
const nearestPatience = time.Second

// Nearest returns the path of the file of an existing session that asked most likely means: one of the same name, in any folder
// and in any case of letters. It returns "" if there is none, or none is found soon.
func (m *Manager) Nearest(ctx context.Context, sessionID, asked string) (found string) {
	ctx, cancel := context.WithTimeout(ctx, nearestPatience)
	defer cancel()
	most := 0
	_, _ = m.WalkFiles(ctx, sessionID, false, func(e Entry) error { // without it the answer says less
		n := 0
		if e.Kind == 'f' {
			n = likeness(e.Path, asked)
		}
		if n > most || n > 0 && n == most && e.Path < found {
			found, most = e.Path, n
		}
		return nil
	})
	return found
}

// likeness is 0 for files of different names, and grows with the number of equally named folders above them. An exactly equal name
// comes before one that differs in case.
func likeness(file, asked string) (n int) {
	asked = strings.ReplaceAll(asked, `\`, "/") // of Windows
	have, want := strings.Split(norm.NFC.String(file), "/"), strings.Split(norm.NFC.String(asked), "/")
	slices.Reverse(have)
	slices.Reverse(want)
	for i := 0; i < min(len(have), len(want)) && strings.EqualFold(have[i], want[i]); i++ {
		n += 2
	}
	if n > 0 && have[0] == want[0] {
		n++
	}
	return n
}
