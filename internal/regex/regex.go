// Package regex compiles large regular expressions late.
package regex

import (
	"regexp"
	"sync"
)

// Late returns a regular expression that is compiled at the first call: a large one takes milliseconds and up to a megabyte, and most
// runs of the program need few. The function panics on a wrong one, and is safe for several goroutines.
func Late(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
