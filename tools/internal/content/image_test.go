package content

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"slices"
	"testing"
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
		"a bomb is refused":    {"image/png", plain(20000, 20000), false, errTooManyPixels},
		"not an image":         {"image/png", []byte("<script>"), false, ErrBadImage},
		"another type than it": {"image/gif", small, false, ErrBadImage},
		"half a small image":   {"image/png", small[:60], false, ErrBadImage},
		"deep colours":         {"image/png", deep(3000, 3000), false, errTooManyPixels},
		"a scan too many":      {"image/jpeg", scanned(maxScans+1, 0), false, errTooManyScans},
		"scans enough":         {"image/jpeg", scanned(maxScans, 2*maxScans), true, nil},
		"half an image":        {"image/png", noise(1600, 100)[:5000], false, ErrBadImage},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FitImage(t.Context(), test.mime, test.data, false)
			if err != test.err { //nolint:errorlint // these are returned as they are
				t.Fatalf("got error %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			config, format, err := image.DecodeConfig(bytes.NewReader(got.Data))
			if err != nil || "image/"+format != got.MIME || config.Width > maxImageSide || config.Height > maxImageSide || len(got.Data) > maxImageBytes {
				t.Errorf("%d bytes of %s, %dx%d, %v", len(got.Data), got.MIME, config.Width, config.Height, err)
			}
			if test.same != bytes.Equal(got.Data, test.data) {
				t.Errorf("unchanged: %v, want %v", !test.same, test.same)
			}
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

func TestACancelledCallDoesNotWaitForAnotherOnesImage(t *testing.T) {
	decoding <- struct{}{}
	defer func() { <-decoding }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := FitImage(ctx, "image/png", noise(5, 5), false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
