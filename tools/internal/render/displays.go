package render

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

// maxImages bounds the images of one answer.
const maxImages = 4

// textTypes are the other representations that say something to a model, the best first.
var textTypes = []string{"text/plain", "text/markdown", "text/latex", "application/json", "image/svg+xml", "text/html"}

// The values of --images.
const (
	ImagesOn   = "on"
	ImagesPath = "path" // answers name only the paths
	ImagesOff  = "off"  // they are listed as files, and not as something shown
)

func (r *Renderer) images(ctx context.Context) string {
	if r.Images == "" && clientOf(ctx).textImages {
		return ImagesPath
	}
	return cmp.Or(r.Images, ImagesOn)
}

// withoutImages leaves the images of files out of an answer if they are not wanted.
func (r *Renderer) withoutImages(ctx context.Context, a *Answer) *Answer {
	if r.images(ctx) == ImagesOn {
		return a
	}
	n := len(a.Content)
	a.Content = slices.DeleteFunc(a.Content, func(c mcp.Content) bool { _, ok := c.(mcp.ImageContent); return ok })
	if n > len(a.Content) {
		return a.Noting("Note: the image is left out, because this client would make text of it or --images says so; work on the file with code.")
	}
	return a
}

// unshown returns a copy of a result with its images as ordinary files.
func unshown(res *sandbox.Result) *sandbox.Result {
	plain := *res
	plain.Displays = slices.DeleteFunc(slices.Clone(res.Displays), func(d sandbox.Display) bool { return content.IsImage(d.Path) })
	plain.DisplaysTotal -= len(res.Displays) - len(plain.Displays)
	return &plain
}

// renderDisplays returns the images for the model, and the lines that describe everything shown.
func (r *Renderer) renderDisplays(ctx context.Context, res *sandbox.Result) ([]mcp.Content, string) {
	var images []mcp.Content
	var b strings.Builder
	left := cmp.Or(r.Manager.Config().OutputBytes, math.MaxInt)
	attached := r.images(ctx) == ImagesOn
	for _, display := range res.Displays {
		line, text := describeDisplay(display)
		line += within(text, &left)
		if mime, data := pick(display); data != nil && attached {
			if len(images) == maxImages {
				line += " (not attached: an answer has at most " + fmt.Sprint(maxImages) + " images)"
			} else if fitted, err := r.fitShown(ctx, mime, data); err != nil {
				line += " (not attached: " + whyUnfit(display, err) + ")"
			} else {
				images = append(images, mcp.NewImageContent(base64.StdEncoding.EncodeToString(fitted.Data), fitted.MIME))
			}
		}
		if _, data := pick(display); data == nil && attached && content.IsImage(display.Path) {
			line += " (not attached: its data are not held here" + readToSee + ")" // most often it belongs to an earlier run
		}
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	if more := res.DisplaysTotal - len(res.Displays); more > 0 {
		fmt.Fprintf(&b, "… and %d more, not reported\n", more)
	}
	return images, b.String()
}

// encodedRoom is the memory for each byte of an image in an answer: the byte, its base64, and a line of JSON that grew.
const encodedRoom = 6

// fitShown is FitImage with room for the answer.
func (r *Renderer) fitShown(ctx context.Context, mime string, data []byte) (fitted content.Image, err error) {
	if fitted, err = r.FitImage(ctx, mime, data); err == nil {
		_, err = room.Take(ctx, encodedRoom*int64(len(fitted.Data)))
	}
	return fitted, err
}

const readToSee = "; read_artifact with this path shows it"

// whyUnfit explains why an image is not attached, and how to see it.
func whyUnfit(display sandbox.Display, err error) string {
	if content.IsTooLarge(err) && display.Path != "" {
		return err.Error() + readToSee
	}
	return err.Error()
}

// pick returns the representation that is attached as an image, or nil.
func pick(display sandbox.Display) (string, []byte) {
	for _, mime := range content.ImageTypes {
		if data := display.Data[mime]; len(data) > 0 {
			return mime, data
		}
	}
	return "", nil
}

// describeDisplay returns the path of a display, and its text.
func describeDisplay(display sandbox.Display) (place, text string) {
	alt := display.Alt
	if display.Path != "" {
		place = display.Path + "  " + humanize.Bytes(uint64(display.SizeBytes))
		if alt != "" {
			place += "  "
		}
		return place, alt
	}
	for _, mime := range textTypes {
		if data := display.Data[mime]; len(data) > 0 {
			return "", string(data)
		}
	}
	return "", alt
}

// within is a text's beginning as far as left bytes reach, which it subtracts, and says how
// much was left out. Each text that code shows is bounded where it is read, and there may be many.
func within(shown string, left *int) string {
	if len(shown) <= *left {
		*left -= len(shown)
		return shown
	}
	head := text.Clip(shown, *left)
	*left = 0
	return strings.TrimLeft(fmt.Sprintf("%s\n… %s left out …", strings.TrimRight(head, "\n"), humanize.Bytes(uint64(len(shown)-len(head)))), "\n")
}

// A client that may make text of an image gets a third of its bytes, but of no image fewer than chartBytes.
const (
	smallImage = 3
	chartBytes = 6 << 10
)

// FitImage returns an image within the bounds, as small as suits the client, and without its text fields if they contain a secret.
func (r *Renderer) FitImage(ctx context.Context, mime string, data []byte) (content.Image, error) {
	pixelsOnly := r.Secrets.In(data)
	if r.Images == "" && clientOf(ctx).smallImages {
		small, err := content.FitImage(ctx, mime, data, pixelsOnly, min(max(len(data)/smallImage, chartBytes), content.MaxImageBytes))
		if !content.IsTooLarge(err) {
			return small, err
		}
	}
	return content.FitImage(ctx, mime, data, pixelsOnly, content.MaxImageBytes)
}
