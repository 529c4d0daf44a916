package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoders for what code may show
	"image/jpeg"
	"image/png"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // likewise

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// What models take without trouble. Larger images are refused by the models' makers, and spoil the
// whole conversation.
const (
	maxImageSide   = 1568      // pixels
	maxImageBytes  = 700 << 10 // before base64
	maxImages      = 4         // in one answer
	maxDecodePixel = 12 << 20  // an image of more pixels is not decoded: it could be a bomb
	maxScans       = 64        // of a JPEG: each costs as much as all its pixels, and may have next to no bytes
)

// imageTypes are the formats that every client shows, the best first.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// textTypes are the other representations that say something to a model, the best first.
var textTypes = []string{"text/plain", "text/markdown", "text/latex", "application/json", "image/svg+xml", "text/html"}

// What may become of images, as --images says it.
const (
	ImagesOn   = "on"
	ImagesPath = "path" // only where they are is told
	ImagesOff  = "off"  // they are listed as files, and not as something shown
)

func (d *Deps) images(ctx context.Context) string {
	if d.Images == "" && clientOf(ctx).textImages {
		return ImagesPath
	}
	return cmp.Or(d.Images, ImagesOn)
}

// withoutImages leaves the images of files out of an answer where they are not wanted.
func (d *Deps) withoutImages(ctx context.Context, a *answer) *answer {
	if d.images(ctx) == ImagesOn {
		return a
	}
	n := len(a.content)
	a.content = slices.DeleteFunc(a.content, func(c mcp.Content) bool { _, ok := c.(mcp.ImageContent); return ok })
	if n > len(a.content) {
		return a.noting("Note: the image is left out, because this client would make text of it or --images says so; work on the file with code.")
	}
	return a
}

// unshown gives a copy of a result whose images are files like others.
func unshown(res *sandbox.Result) *sandbox.Result {
	plain := *res
	plain.Displays = slices.DeleteFunc(slices.Clone(res.Displays), func(d sandbox.Display) bool { return isImage(d.Path) })
	plain.DisplaysTotal -= len(res.Displays) - len(plain.Displays)
	return &plain
}

// renderDisplays gives the images for the model, and the lines that tell of everything shown.
func (d *Deps) renderDisplays(ctx context.Context, res *sandbox.Result) ([]mcp.Content, string) {
	var images []mcp.Content
	var b strings.Builder
	left := cmp.Or(d.Manager.Config().OutputBytes, math.MaxInt)
	attached := d.images(ctx) == ImagesOn
	for _, display := range res.Displays {
		line, text := d.describeDisplay(display)
		line += within(text, &left)
		if mime, data := pick(display); data != nil && attached {
			if len(images) == maxImages {
				line += " (not attached: an answer has at most " + fmt.Sprint(maxImages) + " images)"
			} else if fitted, err := d.fitImage(ctx, mime, data); err != nil {
				line += " (not attached: " + err.Error() + ")"
			} else {
				images = append(images, mcp.NewImageContent(base64.StdEncoding.EncodeToString(fitted.data), fitted.mime))
			}
		}
		if _, data := pick(display); data == nil && attached && isImage(display.Path) {
			line += " (not attached: " + whyNoData(display) + ")"
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

// whyNoData tells why an image has only a path here, and how it can be seen. Most often it is of an earlier
// run, whose images are let go of when there is a next one.
func whyNoData(display sandbox.Display) string {
	if display.SizeBytes > maxImageSource {
		return "too large; make it smaller to see it"
	}
	return "its data are not held here; read_artifact with this path shows it"
}

// isImage tells by its name whether a file is an image that could have been attached.
func isImage(path string) bool { return slices.Contains(imageTypes, mimeType(path)) }

// pick gives the representation that is attached as an image, or nil.
func pick(display sandbox.Display) (string, []byte) {
	for _, mime := range imageTypes {
		if data := display.Data[mime]; len(data) > 0 {
			return mime, data
		}
	}
	return "", nil
}

// describeDisplay tells of what was shown: where it is, and what it says. The sandbox cuts alt texts.
func (d *Deps) describeDisplay(display sandbox.Display) (place, text string) {
	alt := d.Secrets.MaskHead(display.Alt)
	if display.Path != "" {
		place = display.Path + "  " + humanize.Bytes(uint64(display.SizeBytes))
		if alt != "" {
			place += "  "
		}
		return place, alt
	}
	for _, mime := range textTypes {
		if data := display.Data[mime]; len(data) > 0 {
			return "", d.maskCut(string(data))
		}
	}
	return "", alt
}

// within gives a text's beginning as far as left bytes reach, which it takes away from them, and says how
// much was left out. Each text that code shows is bounded where it is read, and there may be many.
func within(text string, left *int) string {
	if len(text) <= *left {
		*left -= len(text)
		return text
	}
	head := strings.ToValidUTF8(text[:*left], "") // but for half a character at its end it is valid
	*left = 0
	return strings.TrimLeft(fmt.Sprintf("%s\n… %s left out …", strings.TrimRight(head, "\n"), humanize.Bytes(uint64(len(text)-len(head)))), "\n")
}

type fitted struct {
	mime string
	data []byte
}

var (
	errTooManyPixels = errors.New("too many pixels; make it smaller to see it")
	errTooManyScans  = errors.New("a JPEG of too many scans; save it as PNG to see it")
	errBadImage      = errors.New("its data is not a whole image")
	errStaysLarge    = errors.New("too large even when scaled down")
)

// decoding bounds the memory that images take: one at a time.
var decoding = make(chan struct{}, 1)

// fitImage gives an image within the bounds, and without the texts in it where they have a secret.
func (d *Deps) fitImage(ctx context.Context, mime string, data []byte) (fitted, error) {
	return fitImage(ctx, mime, data, d.Secrets.tells(data))
}

// fitImage gives an image within the bounds: as it is where it fits and not only its pixels are wanted,
// else scaled down and encoded anew.
func fitImage(ctx context.Context, mime string, data []byte, pixelsOnly bool) (fitted, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || "image/"+format != mime {
		return fitted{}, errBadImage
	}
	limit := maxDecodePixel
	switch config.ColorModel {
	case color.NRGBA64Model, color.RGBA64Model, color.Gray16Model:
		limit /= 2
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > limit/config.Height {
		return fitted{}, errTooManyPixels
	}
	if format == "jpeg" && scans(data) > maxScans {
		return fitted{}, errTooManyScans
	}
	select {
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	case <-ctx.Done():
		return fitted{}, context.Cause(ctx)
	}
	source, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return fitted{}, errBadImage // half an image is refused by models' makers too
	}
	if config.Width <= maxImageSide && config.Height <= maxImageSide && len(data) <= maxImageBytes && !pixelsOnly {
		return fitted{mime, data}, nil
	}
	for side := maxImageSide; side >= maxImageSide/4; side = side * 3 / 4 {
		if f, ok := encode(scale(source, side)); ok {
			return f, nil
		}
	}
	return fitted{}, errStaysLarge
}

// scans counts the scans of a JPEG. It steps from marker to marker as the decoder does: what a thumbnail in
// the file has, or what follows the image, is never decoded.
func scans(data []byte) int {
	const fill, stuffed, firstRestart, start, end, scan = 0xff, 0x00, 0xd0, 0xd8, 0xd9, 0xda
	n := 0
	for {
		_, behind, found := bytes.Cut(data, []byte{fill})
		if !found || len(behind) < 3 {
			return n
		}
		switch marker := behind[0]; {
		case marker == fill:
			data = behind
		case marker == stuffed || marker >= firstRestart && marker <= start:
			data = behind[1:]
		case marker == end:
			return n
		default:
			if marker == scan {
				n++
			}
			length := 1 + int(binary.BigEndian.Uint16(behind[1:]))
			data = behind[min(length, len(behind)):]
		}
	}
}

// scale gives the image with its longer side at most side pixels.
func scale(source image.Image, side int) image.Image {
	size := source.Bounds().Size()
	longer := max(size.X, size.Y)
	if longer <= side {
		return source
	}
	target := image.NewNRGBA(image.Rect(0, 0, max(1, size.X*side/longer), max(1, size.Y*side/longer)))
	draw.CatmullRom.Scale(target, target.Bounds(), source, source.Bounds(), draw.Src, nil)
	return target
}

// encode tries PNG, which keeps a chart's edges sharp, and then JPEG, which makes photographs
// small. JPEG has no transparency, so what shows through becomes white.
func encode(img image.Image) (fitted, bool) {
	var b bytes.Buffer
	if png.Encode(&b, img) == nil && b.Len() <= maxImageBytes {
		return fitted{"image/png", b.Bytes()}, true
	}
	opaque := image.NewRGBA(img.Bounds())
	draw.Draw(opaque, opaque.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(opaque, opaque.Bounds(), img, img.Bounds().Min, draw.Over)
	b.Reset()
	if jpeg.Encode(&b, opaque, &jpeg.Options{Quality: 85}) == nil && b.Len() <= maxImageBytes {
		return fitted{"image/jpeg", b.Bytes()}, true
	}
	return fitted{}, false
}
