package e2b

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
)

func part(kind, content string) string {
	body := kind + content
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))) + body + string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

func TestAChartIsTakenFromItsPicture(t *testing.T) {
	head, data, end := part("IHDR", "0123456789abc"), part("IDAT", "chart\x00data"), part("IEND", "")
	told := part("tEXt", chartText+`{"type":"line"}`)
	for name, test := range map[string]struct{ picture, without, chart string }{
		"a chart":         {pngHead + head + told + data + end, pngHead + head + data + end, `{"type":"line"}`},
		"another text":    {pngHead + head + part("tEXt", "Title\x00chart") + data + end, "", ""},
		"none":            {pngHead + head + data + end, "", ""},
		"cut off":         {pngHead + head + told[:20], "", ""},
		"a false length":  {pngHead + "\xff\xff\xff\xfftEXtchart\x00{}", "", ""},
		"another picture": {"GIF89a" + told, "", ""},
		"nothing":         {"", "", ""},
	} {
		without, chart := takeChart([]byte(test.picture))
		if want := test.without; want == "" && string(without) != test.picture || want != "" && string(without) != want || string(chart) != test.chart {
			t.Errorf("%s: %q, %q", name, without, chart)
		}
	}
}
