package content

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	_ "image/gif" // decoders for what code may show
	"image/jpeg"
	"image/png"
	"math"
	"slices"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // likewise

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
)

// Models accept these sizes without trouble. Their makers' APIs refuse larger images, and that spoils the whole conversation.
const (
	// MaxImageSource is the most that is read of an image before it is made to fit.
	MaxImageSource = 16 << 20

	// MaxImageBytes limits an image before base64.
	MaxImageBytes = 700 << 10

	// MaxPixelBytes is the memory for the pixels of an image that the server decodes itself: a request has it beside the image's data. A
	// program in the session makes larger ones smaller.
	MaxPixelBytes = room.Each - MaxImageSource

	maxImageSide  = 1568    // pixels
	maxSourceSide = 1 << 15 // pixels of an image before it is scaled
	strip         = 16      // rows or columns that are scaled at a time
	maxScans      = 64      // of a JPEG: each costs as much as all its pixels, and can be nearly empty
)

// ImageTypes are the formats that every client shows, the best first.
var ImageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// IsImage reports whether a file is an image that models take, by its name.
func IsImage(path string) bool { return slices.Contains(ImageTypes, TypeByName(path)) }

// Image is one that models take.
type Image struct {
	MIME string
	Data []byte
}

// ErrBadImage reports that data is no image of its type, or not a whole one.
var ErrBadImage = errors.New("its data is not a whole image")

var (
	// ErrTooManyPixels reports that to decode an image would take more than MaxPixelBytes.
	ErrTooManyPixels = errors.New("too many pixels to be shown with a run")
	errTooManyScans  = errors.New("a JPEG of too many scans to be shown with a run")
	errStaysLarge    = errors.New("too large even when scaled down")
)

// IsTooLarge reports whether FitImage refused an image because of its size.
func IsTooLarge(err error) bool {
	return errors.Is(err, ErrTooManyPixels) || errors.Is(err, errTooManyScans) || errors.Is(err, errStaysLarge)
}

// PixelBytes estimates the memory that FitImage takes for an image with this beginning, beside its data: its pixels, those scaled in one
// direction, and three copies of the result. For an image of unknown size it is an upper bound.
func PixelBytes(head []byte) int64 {
	config, format, err := image.DecodeConfig(bytes.NewReader(head))
	if err != nil || min(config.Width, config.Height) <= 0 || max(config.Width, config.Height) > maxSourceSide {
		return math.MaxInt64 / 2
	}
	each := int64(4)
	switch {
	case isProgressive(format, head): // the decoder keeps the values that each scan adds to
		each = 15
	case isDeep(config), format == "webp":
		each = 8
	}
	size := scaled(config.Width, config.Height, maxImageSide)
	return each*int64(config.Width)*int64(config.Height) + 4*int64(size.X)*int64(config.Height) + 3*4*int64(size.X)*int64(size.Y)
}

func isDeep(config image.Config) bool {
	return slices.Contains([]color.Model{color.NRGBA64Model, color.RGBA64Model, color.Gray16Model}, config.ColorModel)
}

// scaled is the size of an image with its longer side at most side pixels.
func scaled(width, height, side int) image.Point {
	longer := max(width, height)
	if longer <= side {
		return image.Pt(width, height)
	}
	return image.Pt(max(1, width*side/longer), max(1, height*side/longer))
}

// decoding bounds the memory that images take: one at a time.
var decoding = make(chan struct{}, 1)

// FitImage returns an image within the bounds and of at most so many bytes: as it is where it fits, is upright and not only its pixels
// are wanted, else with fewer colours or scaled down, turned as its camera says, and encoded anew. Models' makers do not all look at EXIF.
// It takes the room for the pixels while it works.
func FitImage(ctx context.Context, mime string, data []byte, pixelsOnly bool, most int) (Image, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || "image/"+format != mime {
		return Image{}, ErrBadImage
	}
	need := PixelBytes(data)
	if need > MaxPixelBytes {
		return Image{}, ErrTooManyPixels
	}
	if format == "jpeg" && count(data, scan) > maxScans {
		return Image{}, errTooManyScans
	}
	release, err := room.Take(ctx, need)
	if err != nil {
		return Image{}, err
	}
	defer release()
	select {
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	case <-ctx.Done():
		return Image{}, context.Cause(ctx)
	}
	source, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return Image{}, ErrBadImage // half an image is refused by models' makers too
	}
	turn := orientation(format, data)
	if config.Width <= maxImageSide && config.Height <= maxImageSide && len(data) <= most && !pixelsOnly && turn == 1 {
		return Image{mime, data}, nil
	}
	for side := min(maxImageSide, max(config.Width, config.Height)); ; side = side * 3 / 4 {
		if f, ok := encode(turned(scale(source, side), turn), most); ok {
			return f, nil
		}
		if side < maxImageSide/3 { // a quarter still says something
			return Image{}, errStaysLarge
		}
	}
}

const progressive, scan = 0xc2, 0xda // markers

// isProgressive reports whether an image is a JPEG that comes in scans.
func isProgressive(format string, data []byte) bool {
	return format == "jpeg" && count(data, progressive) > 0
}

// count counts the markers of a kind in a JPEG. It steps from one to the next as the decoder does, so it skips an embedded thumbnail and
// data behind the image, which are never decoded.
func count(data []byte, kind byte) int {
	const fill, stuffed, firstRestart, start, end = 0xff, 0x00, 0xd0, 0xd8, 0xd9
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
			if marker == kind {
				n++
			}
			length := 1 + int(binary.BigEndian.Uint16(behind[1:]))
			data = behind[min(length, len(behind)):]
		}
	}
}

// scale returns the image with its longer side at most side pixels.
func scale(source image.Image, side int) image.Image {
	size := source.Bounds().Size()
	to := scaled(size.X, size.Y, side)
	if to == size {
		return source
	}
	// In strips, which take 32 bytes a pixel: each way by itself, as the other one stays as it is.
	wide, from := image.NewRGBA(image.Rect(0, 0, to.X, size.Y)), source.Bounds().Min
	for y := 0; y < size.Y; y += strip {
		rows := image.Rect(0, y, to.X, min(y+strip, size.Y))
		draw.CatmullRom.Scale(wide, rows, source, image.Rect(0, rows.Min.Y, size.X, rows.Max.Y).Add(from), draw.Src, nil)
	}
	target := image.NewNRGBA(image.Rectangle{Max: to})
	for x := 0; x < to.X; x += strip {
		columns := image.Rect(x, 0, min(x+strip, to.X), to.Y)
		draw.CatmullRom.Scale(target, columns, wide, image.Rect(columns.Min.X, 0, columns.Max.X, size.Y), draw.Src, nil)
	}
	return target
}

// encode tries PNG, which keeps a chart's edges sharp, also with few colours, and then JPEG, which makes photographs small. Neither of the
// last two forms supports transparency, so transparent pixels become white.
func encode(img image.Image, most int) (Image, bool) {
	var b bytes.Buffer
	if png.Encode(&b, img) == nil && b.Len() <= most {
		return Image{"image/png", b.Bytes()}, true
	}
	opaque := image.NewRGBA(img.Bounds())
	draw.Draw(opaque, opaque.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(opaque, opaque.Bounds(), img, img.Bounds().Min, draw.Over)
	b.Reset()
	if few := withFewColours(opaque); few != nil && (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, few) == nil && b.Len() <= most {
		return Image{"image/png", b.Bytes()}, true
	}
	b.Reset()
	if jpeg.Encode(&b, opaque, &jpeg.Options{Quality: 85}) == nil && b.Len() <= most {
		return Image{"image/jpeg", b.Bytes()}, true
	}
	return Image{}, false
}

// fewColours is the number of colours that a chart keeps: most of its pixels use them, and the others are blends along its edges.
const fewColours = 64

// withFewColours returns an opaque image in its most common colours, which are told apart by the first five bits of each part; nil: it is
// no chart.
func withFewColours(img *image.RGBA) *image.Paletted {
	const bits, bins = 3, 1 << 15
	bin := func(p []uint8) int { return int(p[0]>>bits)<<10 | int(p[1]>>bits)<<5 | int(p[2]>>bits) }
	var seen [bins]struct{ n, r, g, b int }
	for p := img.Pix; len(p) > 0; p = p[4:] {
		s := &seen[bin(p)]
		s.n, s.r, s.g, s.b = s.n+1, s.r+int(p[0]), s.g+int(p[1]), s.b+int(p[2])
	}
	order := make([]int, 0, bins)
	for i := range seen {
		if seen[i].n > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(seen[b].n-seen[a].n, a-b) })
	mean := func(i int) color.RGBA {
		s := seen[i]
		return color.RGBA{uint8(s.r / s.n), uint8(s.g / s.n), uint8(s.b / s.n), 0xff}
	}
	var colours color.Palette
	left := len(img.Pix) / 4
	for _, i := range order[:min(len(order), fewColours)] {
		colours = append(colours, mean(i))
		left -= seen[i].n
	}
	if 5*left > len(img.Pix)/4 {
		return nil
	}
	var index [bins]uint8
	for _, i := range order {
		index[i] = uint8(colours.Index(mean(i)))
	}
	few := image.NewPaletted(img.Bounds(), colours)
	for i := range few.Pix {
		few.Pix[i] = index[bin(img.Pix[4*i:])]
	}
	return few
}
