package content

import (
	"bytes"
	"encoding/binary"
	"image"
)

// exifMarks maps a format to the bytes before EXIF. Bytes in a compressed image that happen to match are followed by no valid EXIF.
var exifMarks = map[string][]byte{"jpeg": []byte("Exif\x00\x00"), "png": []byte("eXIf"), "webp": []byte("EXIF")}

// orientation returns how an image of a format is turned or mirrored before it is shown, by its EXIF: 1, not at all, to 8.
func orientation(format string, data []byte) int {
	mark := exifMarks[format]
	_, exif, found := bytes.Cut(data, mark)
	if mark == nil || !found {
		return 1
	}
	if format == "webp" { // its length is between, and some write JPEG's mark too
		exif = bytes.TrimPrefix(exif[min(4, len(exif)):], exifMarks["jpeg"])
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(exif, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(exif, []byte("II*\x00")):
		return 1
	}
	const tag, entryBytes = 0x0112, 12
	if len(exif) < 8 {
		return 1
	}
	entries := exif[min(uint64(order.Uint32(exif[4:])), uint64(len(exif))):]
	for entries = entries[min(2, len(entries)):]; len(entries) >= entryBytes; entries = entries[entryBytes:] {
		if n := order.Uint16(entries[8:]); order.Uint16(entries) == tag && 1 <= n && n <= 8 {
			return int(n)
		}
	}
	return 1
}

// turned returns an image as its orientation says that it is shown.
func turned(source image.Image, orientation int) image.Image {
	if orientation == 1 {
		return source
	}
	from := source.Bounds()
	width, height := from.Dx(), from.Dy()
	if orientation >= 5 {
		width, height = height, width
	}
	target := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			left, top := x, y
			if orientation >= 5 {
				left, top = top, left
			}
			switch orientation {
			case 2, 3, 7, 8:
				left = from.Dx() - 1 - left
			}
			switch orientation {
			case 3, 4, 6, 7:
				top = from.Dy() - 1 - top
			}
			target.Set(x, y, source.At(from.Min.X+left, from.Min.Y+top))
		}
	}
	return target
}
