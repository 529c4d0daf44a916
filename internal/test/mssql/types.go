package mssql

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"time"
)

// Column is a column of an answer.
type Column struct {
	Name string
	Type Type
}

// Type is a type of column: how it is told, and how its values are written.
type Type struct {
	info   []byte
	null   []byte
	encode func(any) []byte
}

var (
	collation = []byte{0x09, 0x04, 0xd0, 0x00, 0x34} // Latin, code page 1252
	plpNull   = []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	// Max is the length of the long types.
	Max = 0xffff
)

// small is a type whose values have their length in one byte.
func small(info []byte, encode func(any) []byte) Type {
	return Type{info, []byte{0}, func(v any) []byte {
		b := encode(v)
		return append([]byte{byte(len(b))}, b...)
	}}
}

// Int is tinyint, smallint, int or bigint by its size; values are int.
func Int(size byte) Type {
	return small([]byte{0x26, size}, func(v any) []byte {
		return binary.LittleEndian.AppendUint64(nil, uint64(v.(int)))[:size]
	})
}

// Bit has values of bool.
func Bit() Type {
	return small([]byte{0x68, 1}, func(v any) []byte {
		if v.(bool) {
			return []byte{1}
		}
		return []byte{0}
	})
}

// Float has values of float64.
func Float() Type {
	return small([]byte{0x6d, 8}, func(v any) []byte {
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v.(float64)))
	})
}

// Real has values of float32.
func Real() Type {
	return small([]byte{0x6d, 4}, func(v any) []byte {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v.(float32)))
	})
}

// Decimal has values as text with exactly scale digits behind the point.
func Decimal(precision, scale byte) Type {
	return small([]byte{0x6a, 17, precision, scale}, func(v any) []byte {
		n, _ := new(big.Int).SetString(strings.ReplaceAll(v.(string), ".", ""), 10)
		b := make([]byte, 17)
		if n.Sign() >= 0 {
			b[0] = 1
		}
		for i, c := range n.Bytes() {
			b[len(n.Bytes())-i] = c
		}
		return b
	})
}

// Money has values of int in ten-thousandths.
func Money() Type {
	return small([]byte{0x6e, 8}, func(v any) []byte {
		n := uint64(v.(int))
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(n>>32)), uint32(n))
	})
}

// SmallMoney has values of int in ten-thousandths.
func SmallMoney() Type {
	return small([]byte{0x6e, 4}, func(v any) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v.(int))) })
}

// Identifier has values of 16 bytes, in the order of the wire.
func Identifier() Type {
	return small([]byte{0x24, 16}, func(v any) []byte { return v.([]byte) })
}

// days since the first one.
func days(t time.Time) uint32 { return uint32((t.Unix() + 62135596800) / 86400) }

// clock is the time of day in units of scale digits.
func clock(t time.Time, scale int) []byte {
	nanos := uint64(t.Hour()*3600+t.Minute()*60+t.Second())*1e9 + uint64(t.Nanosecond())
	b := binary.LittleEndian.AppendUint64(nil, nanos/uint64(math.Pow10(9-scale)))
	switch {
	case scale <= 2:
		return b[:3]
	case scale <= 4:
		return b[:4]
	default:
		return b[:5]
	}
}

func date(t time.Time) []byte { return binary.LittleEndian.AppendUint32(nil, days(t))[:3] }

// Date has values of time.Time, as all types of time have.
func Date() Type {
	return small([]byte{0x28}, func(v any) []byte { return date(v.(time.Time)) })
}

// Time is a time of day.
func Time(scale byte) Type {
	return small([]byte{0x29, scale}, func(v any) []byte { return clock(v.(time.Time), int(scale)) })
}

// DateTime2 is datetime2.
func DateTime2(scale byte) Type {
	return small([]byte{0x2a, scale}, func(v any) []byte {
		t := v.(time.Time)
		return append(clock(t, int(scale)), date(t)...)
	})
}

// DateTimeOffset is datetimeoffset.
func DateTimeOffset(scale byte) Type {
	return small([]byte{0x2b, scale}, func(v any) []byte {
		t := v.(time.Time)
		_, offset := t.Zone()
		b := append(clock(t.UTC(), int(scale)), date(t.UTC())...)
		return binary.LittleEndian.AppendUint16(b, uint16(offset/60))
	})
}

var era1900 = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)

// DateTime is datetime, which counts in three hundredths of a second.
func DateTime() Type {
	return small([]byte{0x6f, 8}, func(v any) []byte {
		t := v.(time.Time)
		ticks := (t.Hour()*3600+t.Minute()*60+t.Second())*300 + int(math.Round(float64(t.Nanosecond())*3/1e7))
		b := binary.LittleEndian.AppendUint32(nil, days(t)-days(era1900))
		return binary.LittleEndian.AppendUint32(b, uint32(ticks))
	})
}

// SmallDateTime is smalldatetime.
func SmallDateTime() Type {
	return small([]byte{0x6f, 4}, func(v any) []byte {
		t := v.(time.Time)
		b := binary.LittleEndian.AppendUint16(nil, uint16(days(t)-days(era1900)))
		return binary.LittleEndian.AppendUint16(b, uint16(t.Hour()*60+t.Minute()))
	})
}

// sized is a type whose values have their length in two bytes, or come in chunks where it is Max.
func sized(kind byte, size int, collated bool, encode func(any) []byte) Type {
	info := binary.LittleEndian.AppendUint16([]byte{kind}, uint16(size))
	if collated {
		info = append(info, collation...)
	}
	if size == Max {
		return chunked(info, encode)
	}
	return Type{info, []byte{0xff, 0xff}, func(v any) []byte {
		b := encode(v)
		return append(binary.LittleEndian.AppendUint16(nil, uint16(len(b))), b...)
	}}
}

// chunked values come as one chunk and an end.
func chunked(info []byte, encode func(any) []byte) Type {
	return Type{info, plpNull, func(v any) []byte {
		b := encode(v)
		whole := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
		if len(b) > 0 {
			whole = append(binary.LittleEndian.AppendUint32(whole, uint32(len(b))), b...)
		}
		return append(whole, 0, 0, 0, 0)
	}}
}

func wide(v any) []byte   { return utf16Bytes(v.(string)) }
func narrow(v any) []byte { return []byte(v.(string)) }
func bytes(v any) []byte  { return v.([]byte) }

// NVarChar has so many letters, or Max.
func NVarChar(length int) Type {
	if length != Max {
		length *= 2
	}
	return sized(0xe7, length, true, wide)
}

// NChar has so many letters.
func NChar(length int) Type { return sized(0xef, 2*length, true, wide) }

// VarChar has so many letters, or Max; values are in code page 1252.
func VarChar(length int) Type { return sized(0xa7, length, true, narrow) }

// Char has so many letters.
func Char(length int) Type { return sized(0xaf, length, true, narrow) }

// VarBinary has so many bytes, or Max.
func VarBinary(length int) Type { return sized(0xa5, length, false, bytes) }

// Binary has so many bytes.
func Binary(length int) Type { return sized(0xad, length, false, bytes) }

// XML is xml without a schema.
func XML() Type { return chunked([]byte{0xf1, 0}, wide) }

// CLR is a type made in .NET, such as hierarchyid.
func CLR(name string) Type {
	info := []byte{0xf0, 0xff, 0xff}
	for _, part := range []string{"shop", "sys", name} {
		info = append(info, shortText(part)...)
	}
	return chunked(append(info, longText("Microsoft.SqlServer.Types")...), bytes)
}

// NText is ntext, which FOR JSON and FOR XML come as.
func NText() Type {
	info := append([]byte{0x63, 0xfe, 0xff, 0xff, 0x7f}, collation...)
	return Type{append(info, 0), []byte{0}, func(v any) []byte {
		text := wide(v)
		b := append([]byte{16}, make([]byte, 16+8)...)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
	}}
}

// Variant is sql_variant; a value is the type's number, the length of its properties, those, and the value.
func Variant() Type {
	return Type{[]byte{0x62, 0x49, 0x1f, 0, 0}, []byte{0, 0, 0, 0}, func(v any) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(v.([]byte)))), v.([]byte)...)
	}}
}

// Unknown is a type that no client knows.
func Unknown() Type { return Type{info: []byte{0xf5, 0, 0}, null: []byte{0xff, 0xff}} }
