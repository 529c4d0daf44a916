package ask

import (
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
)

// FileName is the grants' file, in a principal's state folder.
const FileName = "allowed.json"

// maxGrants limits the grants in a file.
const maxGrants = 1000

// Grant is a rule that a person allowed for good.
type Grant struct {
	Rule    string    `json:"rule"`       // Question.Rule
	Session string    `json:"session_id"` // that asked
	Time    time.Time `json:"time"`
}

// ReadGrants returns a file's grants; a missing file holds none.
func ReadGrants(path string) ([]Grant, error) {
	all, err := ownfile.Open[[]Grant](path).Read()
	if err != nil {
		return nil, err
	}
	return *all, nil
}

// RemoveGrant removes a rule's grant from a file, which running servers read again, and reports whether it was there.
func RemoveGrant(path, rule string) (removed bool, err error) {
	err = ownfile.Open[[]Grant](path).Change(func(all *[]Grant) error {
		before := len(*all)
		*all = slices.DeleteFunc(*all, func(g Grant) bool { return g.Rule == rule })
		if removed = len(*all) < before; !removed {
			return ownfile.ErrUnchanged
		}
		return nil
	})
	return removed && err == nil, err
}

// grants are the grants in a file. Its methods are safe for use by several goroutines.
type grants struct {
	file *ownfile.File[[]Grant] // nil: there are none
}

// have reports whether a rule is granted. A file that cannot be read, or that others could write, has no grants.
func (g grants) have(rule string) bool {
	if g.file == nil {
		return false
	}
	all, err := g.file.Read()
	return err == nil && slices.ContainsFunc(*all, func(one Grant) bool { return one.Rule == rule })
}

func (g grants) add(grant Grant) error {
	return g.file.Change(func(all *[]Grant) error {
		if len(*all) >= maxGrants {
			return fmt.Errorf("there are %d rules, the most that are kept; code-sandbox-mcp allowed remove takes one back", maxGrants)
		}
		*all = append(*all, grant)
		return nil
	})
}
