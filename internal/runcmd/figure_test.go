package runcmd

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

func TestATerminalIsSentWhatItCanDraw(t *testing.T) {
	png, jpeg := map[string][]byte{"image/png": []byte("PNG")}, map[string][]byte{"image/jpeg": []byte("JPEG")}
	const kitty, iterm = "\x1b_Gf=100,a=T,m=0;UE5H\x1b\\\n", "\x1b]1337;File=inline=1;size=3:UE5H\a\n"
	for name, test := range map[string]struct {
		env   map[string]string
		image map[string][]byte
		want  string // empty: nothing is drawn
	}{
		"kitty":                   {map[string]string{"TERM": "xterm-kitty"}, png, kitty},
		"kitty, by its window":    {map[string]string{"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, png, kitty},
		"Ghostty":                 {map[string]string{"TERM_PROGRAM": "ghostty"}, png, kitty},
		"kitty takes no JPEG":     {map[string]string{"TERM": "xterm-kitty"}, jpeg, ""},
		"iTerm2":                  {map[string]string{"TERM_PROGRAM": "iTerm.app"}, png, iterm},
		"iTerm2 from another":     {map[string]string{"LC_TERMINAL": "iTerm2"}, jpeg, "\x1b]1337;File=inline=1;size=4:SlBFRw==\a\n"},
		"WezTerm":                 {map[string]string{"TERM_PROGRAM": "WezTerm"}, png, iterm},
		"no image":                {map[string]string{"TERM_PROGRAM": "WezTerm"}, map[string][]byte{"text/html": []byte("x")}, ""},
		"kitty around tmux":       {map[string]string{"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, png, ""},
		"iTerm2 around screen":    {map[string]string{"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}, png, ""},
		"a terminal like another": {map[string]string{"TERM": "xterm-256color"}, png, ""},
		"none":                    {nil, png, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var sent bytes.Buffer
			draw := DrawIn(func(name string) string { return test.env[name] })
			if drawn := draw != nil && draw(&sent, test.image); drawn != (test.want != "") || sent.String() != test.want {
				t.Errorf("drawn: %v: %q", drawn, sent.String())
			}
		})
	}
}

func TestALargeImageIsSentInParts(t *testing.T) {
	image := bytes.Repeat([]byte("0123456789"), 1000)
	var sent bytes.Buffer
	drawKitty(&sent, map[string][]byte{"image/png": image})
	var all strings.Builder
	parts := strings.Split(strings.TrimSuffix(sent.String(), "\x1b\\\n"), "\x1b\\")
	for i, part := range parts {
		keys, data, _ := strings.Cut(part, ";")
		want := "\x1b_Gm=1"
		switch i {
		case 0:
			want = "\x1b_Gf=100,a=T,m=1"
		case len(parts) - 1:
			want = "\x1b_Gm=0"
		}
		if keys != want || len(data) > kittyChunk {
			t.Errorf("part %d: %q with %d bytes", i, keys, len(data))
		}
		all.WriteString(data)
	}
	if got, err := base64.StdEncoding.DecodeString(all.String()); err != nil || !bytes.Equal(got, image) || len(parts) != 4 {
		t.Errorf("%d parts: %d bytes, %v", len(parts), len(got), err)
	}
}
