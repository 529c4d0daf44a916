package e2b

import (
	"bytes"
	"encoding/binary"
)

const (
	pngHead = "\x89PNG\r\n\x1a\n"
	// chartText begins the part of a PNG that results.py has written.
	chartText = "chart\x00"
	maxChart  = 256 << 10
)

// takeChart returns a picture without the text about its chart, and that text; nil: there is none. The picture is not checked.
func takeChart(picture []byte) (without, chart []byte) {
	rest, is := bytes.CutPrefix(picture, []byte(pngHead))
	for is && len(rest) >= 12 {
		length := int64(binary.BigEndian.Uint32(rest))
		if length > int64(len(rest)-12) {
			break
		}
		part, kind := rest[8:8+length], string(rest[4:8])
		if text, found := bytes.CutPrefix(part, []byte(chartText)); found && kind == "tEXt" && len(text) <= maxChart {
			at := len(picture) - len(rest)
			return append(bytes.Clone(picture[:at]), rest[length+12:]...), text
		}
		rest = rest[length+12:]
	}
	return picture, nil
}
