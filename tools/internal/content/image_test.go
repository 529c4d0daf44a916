package content

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func noise(width, height int) []byte {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	source := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = uint8(source.Uint32())
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}

func TestImagesAreFitted(t *testing.T) {
	small := noise(50, 40)
	for name, test := range map[string]struct {
		mime string
		data []byte
		same bool
		err  error
	}{
		"small stays":          {"image/png", small, true, nil},
		"many bytes shrink":    {"image/png", noise(1500, 1500), false, nil},
		"many pixels shrink":   {"image/png", plain(4000, 1000), false, nil},
		"a bomb is refused":    {"image/png", plain(20000, 20000), false, ErrTooManyPixels},
		"not an image":         {"image/png", []byte("<script>"), false, ErrBadImage},
		"another type than it": {"image/gif", small, false, ErrBadImage},
		"half a small image":   {"image/png", small[:60], false, ErrBadImage},
		"deep colours":         {"image/png", deep(3000, 3000), false, ErrTooManyPixels},
		"a scan too many":      {"image/jpeg", scanned(maxScans+1, 0), false, errTooManyScans},
		"scans enough":         {"image/jpeg", scanned(maxScans, 2*maxScans), true, nil},
		"half an image":        {"image/png", noise(1600, 100)[:5000], false, ErrBadImage},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FitImage(t.Context(), test.mime, test.data, false, MaxImageBytes)
			if err != test.err { //nolint:errorlint // these are returned as they are
				t.Fatalf("got error %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			config, format, err := image.DecodeConfig(bytes.NewReader(got.Data))
			if err != nil || "image/"+format != got.MIME || config.Width > maxImageSide || config.Height > maxImageSide || len(got.Data) > MaxImageBytes {
				t.Errorf("%d bytes of %s, %dx%d, %v", len(got.Data), got.MIME, config.Width, config.Height, err)
			}
			should.Hold(t, test.same == bytes.Equal(got.Data, test.data), "unchanged: %v, want %v", !test.same, test.same)
		})
	}
}

func plain(width, height int) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)))
	return b.Bytes()
}

func deep(width, height int) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewNRGBA64(image.Rect(0, 0, width, height)))
	return b.Bytes()
}

// scanned is a JPEG whose only scan comes n times. In a comment and behind its end it has other bytes that
// would begin a scan elsewhere.
func scanned(n, others int) []byte {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30)), nil)
	at, end := bytes.Index(b.Bytes(), []byte{0xff, 0xda}), b.Len()-2
	start, scan := b.Bytes()[2:at], b.Bytes()[at:end]
	other := bytes.Repeat([]byte{0xff, 0xda}, others)
	comment := binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(2+len(other)))
	return slices.Concat([]byte{0xff, 0xd8}, comment, other, start, bytes.Repeat(scan, n), []byte{0xff, 0xd9}, other)
}

// chart is a picture of a few curves and their blends.
func chart() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 800, 600))
	for x := range 800 {
		for y := range 600 {
			shade := uint8(255)
			for k := 1; k < 9; k++ {
				if off := math.Abs(300 + 30*float64(k)*math.Sin(float64(x*k)/70) - float64(y)); off < 3 {
					shade = uint8(85 * off)
				}
			}
			img.SetRGBA(x, y, color.RGBA{shade, shade/2 + 127, shade/4 + 191, 255})
		}
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	return b.Bytes()
}

func TestAChartKeepsItsPixels(t *testing.T) {
	data := chart()
	got, err := FitImage(t.Context(), "image/png", data, false, len(data)/2)
	config, format, _ := image.DecodeConfig(bytes.NewReader(got.Data))
	should.Hold(t, err == nil && config.Width == 800 && format == "png" && len(got.Data) <= len(data)/2,
		"%d bytes of %d, %d pixels wide, %s, %v", len(got.Data), len(data), config.Width, format, err)
}

func TestACancelledCallDoesNotWaitForAnotherOnesImage(t *testing.T) {
	decoding <- struct{}{}
	defer func() { <-decoding }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	should.Be(t, should.ErrOf(FitImage(ctx, "image/png", noise(5, 5), false, MaxImageBytes)), context.Canceled)
}

func TestAPhotoIsUpright(t *testing.T) {
	// 2 by 2 blocks of grey, as they are stored for each orientation of the first one.
	upright := [4]uint8{0, 80, 160, 240}
	stored := map[int][4]uint8{
		1: upright, 2: {80, 0, 240, 160}, 3: {240, 160, 80, 0}, 4: {160, 240, 0, 80},
		5: {0, 160, 80, 240}, 6: {80, 240, 0, 160}, 7: {240, 80, 160, 0}, 8: {160, 0, 240, 80},
	}
	for orientation, greys := range stored {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			width, height := 1600, 800 // is made smaller
			if order.String() == "BigEndian" {
				width, height = 64, 32 // and fits
			}
			img := image.NewGray(image.Rect(0, 0, width, height))
			for i := range img.Pix {
				img.Pix[i] = greys[i%width/(width/2)+i/width/(height/2)*2]
			}
			exif := append([]byte(map[bool]string{true: "II", false: "MM"}[order.String() == "LittleEndian"]), order.AppendUint16(nil, 42)...)
			exif = order.AppendUint32(exif, 8)
			exif = order.AppendUint16(exif, 2)
			for _, entry := range [][4]uint16{{0x010f, 2, 1, 8}, {0x0112, 3, 1, uint16(orientation)}} {
				exif = order.AppendUint16(order.AppendUint16(exif, entry[0]), entry[1])
				exif = order.AppendUint16(order.AppendUint32(exif, uint32(entry[2])), entry[3])
				exif = order.AppendUint16(exif, 0)
			}
			for mime, data := range map[string][]byte{"image/jpeg": withEXIF(img, exif), "image/png": pngWithEXIF(img, exif)} {
				got := must.Get(FitImage(t.Context(), mime, data, false, MaxImageBytes))(t)
				shown, _, err := image.Decode(bytes.NewReader(got.Data))
				must.OK(t, err)
				size := shown.Bounds().Size()
				should.Equal(t, orientation >= 5, size.Y > size.X, "%s, orientation %d: it is %v", mime, orientation, size)
				for i, want := range upright {
					x, y := size.X/4+i%2*size.X/2, size.Y/4+i/2*size.Y/2
					grey, _, _, _ := shown.At(x, y).RGBA()
					if off := int(grey>>8) - int(want); max(off, -off) > 8 { // JPEG is not exact
						t.Errorf("%s, orientation %d: the grey at %d, %d is off by %d", mime, orientation, x, y, off)
					}
				}
				should.Hold(t, width <= maxImageSide || !bytes.Contains(got.Data, exif[:8]),
					"%s, orientation %d: its EXIF is still there", mime, orientation)
			}
		}
	}
}

func withEXIF(img image.Image, exif []byte) []byte {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, img, nil)
	segment := append([]byte("Exif\x00\x00"), exif...)
	return slices.Concat([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(2+len(segment))), segment, b.Bytes()[2:])
}

func pngWithEXIF(img image.Image, exif []byte) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, img)
	const behindHeader = 8 + 12 + 13
	body := append([]byte("eXIf"), exif...)
	chunk := binary.BigEndian.AppendUint32(append(binary.BigEndian.AppendUint32(nil, uint32(len(exif))), body...), crc32.ChecksumIEEE(body))
	return slices.Concat(b.Bytes()[:behindHeader], chunk, b.Bytes()[behindHeader:])
}

func TestDamagedEXIFTurnsNothing(t *testing.T) {
	for _, exif := range []string{"", "II", "II*\x00\xff\xff\xff\xff", "II*\x00\x08\x00\x00\x00", "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x09", "XX*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"} {
		for format, mark := range exifMarks {
			should.Equal(t, orientation(format, slices.Concat(mark, []byte(exif))), 1, "%s of %q", format, exif)
		}
	}
	should.Equal(t, orientation("webp", []byte("EXIF\x20\x00\x00\x00Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00")), 6, "WebP")
}
