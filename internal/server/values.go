package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// ByteSize is a flag's value in bytes, written as 512m, 1GiB or a plain number; units are binary.
type ByteSize int64

func (b *ByteSize) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil {
		return fmt.Errorf("not a size such as 512m or 2g: %q", text)
	}
	*b = ByteSize(n)
	return nil
}

func (b ByteSize) String() string {
	if b >= 1<<20 && b < 1<<60 { // RAMInBytes knows no name for more
		return units.BytesSize(float64(b))
	}
	return strconv.FormatInt(int64(b), 10)
}

// Type names the value in a flag's help.
func (b ByteSize) Type() string { return "size" }

// seconds is a flag's duration, written as 90s, 1h30m, 7d or a plain number of seconds.
type seconds time.Duration

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

func (s seconds) String() string { return time.Duration(s).String() }

// Type names the value in a flag's help.
func (s seconds) Type() string { return "duration" }
