// Kinds of values of settings: sizes, durations, numbers and words, with their bounds, and the errors of wrong ones.

package setting

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/pflag"
)

// measured is a value in some unit. write writes a number of that unit as a bound.
type measured interface {
	measure() (value float64, write func(float64) string)
}

// byteSize is a value in bytes, written as 512m, 1GiB or a plain number; units are binary.
type byteSize[T int | int64] struct{ to *T }

// Size returns the value of a flag that takes bytes.
func Size[T int | int64](to *T) pflag.Value { return byteSize[T]{to} }

func (b byteSize[T]) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return fmt.Errorf("not a size such as 512m or 2g: %q", text)
	}
	*b.to = T(n)
	return nil
}

func (b byteSize[T]) String() string {
	n := int64(*b.to)
	if n < 1<<20 {
		return strconv.FormatInt(n, 10)
	}
	return exactSize(n)
}

// exactSize writes n in the largest unit that divides it.
func exactSize(n int64) string {
	unit := 0
	for ; unit < len(sizeUnits)-1 && n%1024 == 0; unit++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + sizeUnits[unit]
}

// sizeUnits are the units of Set; the first is none.
var sizeUnits = []string{"", "KiB", "MiB", "GiB", "TiB", "PiB"}

// Type names the value for descriptions of flags.
func (b byteSize[T]) Type() string { return "size" }

func (b byteSize[T]) measure() (float64, func(float64) string) {
	return float64(*b.to), func(n float64) string {
		switch {
		case n == 1:
			return "1 byte"
		case int64(n)%1024 != 0:
			return fmt.Sprintf("%d bytes", int64(n))
		}
		return exactSize(int64(n))
	}
}

// seconds is a duration, written as 90s, 1h30m, 7d or a plain number of seconds.
type seconds time.Duration

// Duration returns the value of a flag that takes a duration.
func Duration(to *time.Duration) pflag.Value { return (*seconds)(to) }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		*s = seconds(n * float64(time.Second))
		return nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil {
			*s = seconds(n * 24 * float64(time.Hour))
			return nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("not a duration such as 90s, 5m or 7d: %q", text)
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) String() string { return time.Duration(*s).String() }

// Type names the value for descriptions of flags.
func (s *seconds) Type() string { return "duration" }

func (s *seconds) measure() (float64, func(float64) string) {
	return float64(*s), func(n float64) string { return time.Duration(n).String() }
}

// indexURL is an address with optional credentials, which String leaves out, and behind blanks those of further hosts.
type indexURL string

func (u *indexURL) Set(text string) error {
	*u = indexURL(text) // packages checks it
	return nil
}

// Raw returns the address with its credentials, which belong in no process list and no log.
func (u *indexURL) Raw() string { return string(*u) }

func (u *indexURL) String() string {
	written := strings.Fields(string(*u))
	for i, address := range written {
		parsed, err := url.Parse(address)
		if err != nil {
			return "an address that cannot be read"
		}
		if parsed.User != nil {
			parsed.User = url.User("xxxxx") // as net/url hides passwords; a name may be a token
		}
		written[i] = parsed.String()
	}
	return strings.Join(written, " ")
}

// Type names the value for descriptions of flags.
func (u *indexURL) Type() string { return "url" }

// UsageError is a mistake in the command line or in another source of settings.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e UsageError) Unwrap() error { return e.Err }

// Problems collects the errors of settings.
type Problems []error

// Wrong adds an error if bad.
func (p *Problems) Wrong(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}
