package setup

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

func TestOutputIsCutIntoHarmlessLines(t *testing.T) {
	for name, test := range map[string]struct {
		writes []string
		want   []string
	}{
		"a line in pieces":             {[]string{"ab", "c\nd", "\n"}, []string{"abc", "d"}},
		"progress drawn with returns":  {[]string{"10%\r20%\r\n"}, []string{"10%", "20%"}},
		"empty lines are left out":     {[]string{"\n \n\t\na\n"}, []string{"a"}},
		"escape sequences are defused": {[]string{"\x1b[31mred\x1b]0;title\a\x00\n"}, []string{"[31mred]0;title"}},
		"direction marks are removed":  {[]string{"a\u202eb\n"}, []string{"ab"}},
		"bytes that are not text":      {[]string{"a\xff\xfeb\n"}, []string{"a��b"}},
		"an unfinished line waits":     {[]string{"a\nb"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			w := &lines{emit: func(line string) { got = append(got, line) }}
			for _, text := range test.writes {
				if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestALineWithoutAnEndDoesNotGrowForEver(t *testing.T) {
	shown := 0
	log := newLog(func(line string) {
		if n := len([]rune(line)); n > maxLine {
			t.Fatalf("a line of %d characters", n)
		}
		shown++
	})
	for range 1000 {
		_, _ = log.Write([]byte(strings.Repeat("é", 1000)))
		if len(log.pending) > 16*maxLine+2000 {
			t.Fatalf("%d bytes are held", len(log.pending))
		}
	}
	if shown == 0 {
		t.Error("nothing was shown")
	}
}

func TestAnErrorShowsTheEndOfTheLogAndWhatToDo(t *testing.T) {
	log := newLog(func(string) {})
	for i := range 40 {
		_, _ = log.Write([]byte("line " + strconv.Itoa(i) + "\n"))
	}
	_, _ = log.Write([]byte("no newline at the end"))
	reason := errors.New("exit status 1")
	err := log.failure("build the Python image", reason, "Try again.")
	text := err.Error()
	if !strings.HasPrefix(text, "build the Python image: exit status 1\n  | line 26\n") ||
		!strings.HasSuffix(text, "\n  | line 39\n  | no newline at the end\nNext: Try again.") {
		t.Errorf("got %s", text)
	}
	if len(err.Log) != maxTail || !errors.Is(err, reason) {
		t.Errorf("%d lines, %v", len(err.Log), err.Err)
	}
}
