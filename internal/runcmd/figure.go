package runcmd

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

// Draw draws an image, given by MIME types, into a terminal, and reports whether there was one that it can draw.
type Draw func(terminal io.Writer, data map[string][]byte) bool

// DrawIn returns how the terminal of an environment draws images; nil where it cannot, or nobody knows.
func DrawIn(getenv func(string) string) Draw {
	term, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return nil // it would swallow the image, or show it as text
	case getenv("KITTY_WINDOW_ID") != "", term == "xterm-kitty", term == "xterm-ghostty", program == "ghostty":
		return drawKitty
	case program == "iTerm.app", program == "WezTerm", getenv("LC_TERMINAL") == "iTerm2":
		return drawITerm
	}
	return nil
}

// kittyChunk is the most that one sequence of the protocol may carry.
const kittyChunk = 4096

// drawKitty draws by kitty's graphics protocol, which takes PNG.
func drawKitty(terminal io.Writer, data map[string][]byte) bool {
	png := data["image/png"]
	if len(png) == 0 {
		return false
	}
	var b bytes.Buffer
	rest, keys := base64.StdEncoding.EncodeToString(png), "f=100,a=T,"
	for rest != "" {
		part, more := rest[:min(kittyChunk, len(rest))], 1
		if rest = rest[len(part):]; rest == "" {
			more = 0
		}
		fmt.Fprintf(&b, "\x1b_G%sm=%d;%s\x1b\\", keys, more, part)
		keys = ""
	}
	b.WriteString("\n")
	_, err := terminal.Write(b.Bytes())
	return err == nil
}

// drawITerm draws by iTerm2's inline images, which some other terminals support too.
func drawITerm(terminal io.Writer, data map[string][]byte) bool {
	for _, mime := range []string{"image/png", "image/jpeg", "image/gif"} {
		if image := data[mime]; len(image) > 0 {
			_, err := fmt.Fprintf(terminal, "\x1b]1337;File=inline=1;size=%d:%s\a\n", len(image), base64.StdEncoding.EncodeToString(image))
			return err == nil
		}
	}
	return false
}
