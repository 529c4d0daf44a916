package mssql

import (
	"encoding/binary"
	"math"
	"net"
	"unicode/utf16"
)

const (
	tokenDone       = 0xfd
	tokenDoneProc   = 0xfe
	tokenDoneInProc = 0xff

	doneMore      = 1
	doneError     = 2
	doneAttention = 0x20
)

// writer puts an answer into packets.
type writer struct {
	conn   net.Conn
	buf    []byte
	number byte
	err    error
}

func (w *writer) raw(b []byte) {
	w.buf = append(w.buf, b...)
	for len(w.buf) > packetSize-8 {
		w.packet(w.buf[:packetSize-8], false)
		w.buf = w.buf[packetSize-8:]
	}
}

func (w *writer) finish() error {
	w.packet(w.buf, true)
	return w.err
}

func (w *writer) packet(body []byte, last bool) {
	w.number++
	p := []byte{packetReply, 0, 0, 0, 0, 0, w.number, 0}
	if last {
		p[1] = 1
	}
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)+len(body)))
	if w.err == nil {
		_, w.err = w.conn.Write(append(p, body...))
	}
}

func (w *writer) done(token byte, status uint16) {
	b := binary.LittleEndian.AppendUint16([]byte{token}, status)
	w.raw(append(b, make([]byte, 10)...)) // command, count of rows
}

func (w *writer) error(e Error) {
	var b []byte
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Number))
	b = append(b, e.State, e.Class)
	b = append(b, longText(e.Message)...)
	b = append(b, shortText("testmssql")...)
	b = append(b, shortText(e.Procedure)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Line))
	w.raw(binary.LittleEndian.AppendUint16([]byte{0xaa}, uint16(len(b))))
	w.raw(b)
}

func (w *writer) loginAck() {
	b := append([]byte{1, 0x74, 0, 0, 4}, shortText("Microsoft SQL Server")...)
	b = append(b, 16, 0, 0, 0)
	w.raw(binary.LittleEndian.AppendUint16([]byte{0xad}, uint16(len(b))))
	w.raw(b)
}

// wantToken reports who gives tokens, and what one is to be for.
func (w *writer) wantToken() {
	authority, resource := utf16Bytes("https://login.microsoftonline.com/"+Tenant), utf16Bytes(Resource)
	const count = 2
	info := binary.LittleEndian.AppendUint32(nil, count)
	at := 4 + count*9
	for i, value := range [count][]byte{authority, resource} {
		info = append(info, byte(i+1))
		info = binary.LittleEndian.AppendUint32(info, uint32(len(value)))
		info = binary.LittleEndian.AppendUint32(info, uint32(at))
		at += len(value)
	}
	info = append(append(info, authority...), resource...)
	w.raw(append(binary.LittleEndian.AppendUint32([]byte{0xee}, uint32(len(info))), info...))
}

// transaction reports that one begins (8), is committed (9) or rolled back (10).
func (w *writer) transaction(change byte, id uint64) {
	b := []byte{change}
	if change == 8 {
		b = binary.LittleEndian.AppendUint64(append(b, 8), id)
		b = append(b, 0)
	} else {
		b = binary.LittleEndian.AppendUint64(append(b, 0, 8), id)
	}
	w.raw(binary.LittleEndian.AppendUint16([]byte{0xe3}, uint16(len(b))))
	w.raw(b)
}

func (w *writer) columns(columns []Column) {
	w.raw(binary.LittleEndian.AppendUint16([]byte{0x81}, uint16(len(columns))))
	for _, c := range columns {
		w.raw([]byte{0, 0, 0, 0, 1, 0}) // no user type; may be NULL
		w.raw(c.Type.info)
		w.raw(shortText(c.Name))
	}
}

func (w *writer) row(columns []Column, values []any) {
	w.raw([]byte{0xd1})
	for i, c := range columns {
		if values[i] == nil {
			w.raw(c.Type.null)
		} else {
			w.raw(c.Type.encode(values[i]))
		}
	}
}

func utf16Bytes(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// shortText has its length in letters in one byte, longText in two.
func shortText(s string) []byte {
	b := utf16Bytes(s)
	return append([]byte{byte(len(b) / 2)}, b...)
}

func longText(s string) []byte {
	b := utf16Bytes(s)
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(b)/2)), b...)
}

func fromUTF16(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

// headers takes off what stands before a request, and gives its transaction.
func headers(body []byte) (rest []byte, transaction uint64) {
	total := binary.LittleEndian.Uint32(body)
	for at := uint32(4); at < total; at += binary.LittleEndian.Uint32(body[at:]) {
		if binary.LittleEndian.Uint16(body[at+4:]) == 2 {
			transaction = binary.LittleEndian.Uint64(body[at+6:])
		}
	}
	return body[total:], transaction
}

// parseLogin tells too whether the client wants to hear what its token is to be for.
func parseLogin(b []byte) (l Login, wants bool) {
	field := func(at int) []byte {
		offset, length := binary.LittleEndian.Uint16(b[at:]), binary.LittleEndian.Uint16(b[at+2:])
		return b[offset : int(offset)+2*int(length)]
	}
	password := append([]byte(nil), field(44)...)
	for i, c := range password {
		c ^= 0xa5
		password[i] = c<<4 | c>>4
	}
	token, wants := parseToken(b)
	return Login{
		Token: token,
		Host:  fromUTF16(field(36)), User: fromUTF16(field(40)), Password: fromUTF16(password),
		App: fromUTF16(field(48)), Database: fromUTF16(field(68)), ReadOnly: b[26]&32 != 0,
	}, wants
}

// parseToken reads the token from the extensions of a login, or that one is to come.
func parseToken(b []byte) (token string, wants bool) {
	if b[27]&0x10 == 0 {
		return "", false
	}
	at := binary.LittleEndian.Uint32(b[binary.LittleEndian.Uint16(b[56:]):])
	for rest := b[at:]; rest[0] != 0xff; {
		length := binary.LittleEndian.Uint32(rest[1:])
		data := rest[5 : 5+length]
		if rest[0] == 2 && data[0]>>1 == 1 { // a token of the client's own
			return fromUTF16(data[5 : 5+binary.LittleEndian.Uint32(data[1:])]), false
		}
		wants = wants || rest[0] == 2
		rest = rest[5+length:]
	}
	return "", wants
}

func parseRequest(m message) Request {
	body, transaction := headers(m.body)
	r := Request{Kind: Batch, Reset: m.reset, Transaction: transaction}
	if m.kind == packetBatch {
		r.Text = fromUTF16(body)
		return r
	}
	r.Kind = RPC
	p := reader{body}
	if length := p.uint16(); length == 0xffff {
		if p.uint16() == 10 {
			r.Procedure = "sp_executesql"
		}
	} else {
		r.Procedure = fromUTF16(p.bytes(2 * int(length)))
	}
	p.uint16() // flags
	for len(p.rest) > 0 {
		r.Params = append(r.Params, p.param())
	}
	if r.Procedure == "sp_executesql" && len(r.Params) >= 2 {
		r.Text, _ = r.Params[0].Value.(string)
		r.Declared, _ = r.Params[1].Value.(string)
		r.Params = r.Params[2:]
	}
	return r
}

// reader takes a request apart.
type reader struct{ rest []byte }

func (p *reader) bytes(n int) []byte {
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *reader) byte() byte     { return p.bytes(1)[0] }
func (p *reader) uint16() uint16 { return binary.LittleEndian.Uint16(p.bytes(2)) }

// param reads the types that the driver sends for Go's basic ones.
func (p *reader) param() Param {
	param := Param{Name: fromUTF16(p.bytes(2 * int(p.byte())))}
	p.byte() // status
	param.Type = p.byte()
	switch param.Type {
	case 0x1f: // NULL
	case 0x26, 0x68, 0x6d:
		p.byte() // the type's size
		param.Value = decode(param.Type, p.bytes(int(p.byte())))
	case 0xe7:
		size := p.uint16()
		p.bytes(5) // collation
		if size == 0xffff {
			param.Value = fromUTF16(p.chunks())
		} else if length := p.uint16(); length != 0xffff {
			param.Value = fromUTF16(p.bytes(int(length)))
		}
	}
	return param
}

func decode(kind byte, b []byte) any {
	switch {
	case len(b) == 0:
		return nil
	case kind == 0x68:
		return b[0] != 0
	case kind == 0x6d:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	default:
		var wide [8]byte
		copy(wide[:], b)
		return int64(binary.LittleEndian.Uint64(wide[:]))
	}
}

func (p *reader) chunks() []byte {
	p.bytes(8)
	var whole []byte
	for {
		n := binary.LittleEndian.Uint32(p.bytes(4))
		if n == 0 {
			return whole
		}
		whole = append(whole, p.bytes(int(n))...)
	}
}
