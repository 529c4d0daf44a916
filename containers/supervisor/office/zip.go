package office

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// A reader of ZIP's directory: archive/zip would add the packing too, 120 KB of process 1.

const (
	endBytes    = 22 // of the end of the directory, without its comment
	entryBytes  = 46 // of an entry, without its texts
	localBytes  = 30 // of what is before a member, without its texts
	mostComment = 64 << 10
	mostEntries = 2 << 20 // bytes of all entries
	isDeflated  = 8
)

var errNoZIP = errors.New("this is no ZIP archive, or a large one")

// member is a file in an archive.
type member struct {
	name       string
	isDeflated bool
	at, size   int64 // of its local header, and of its packed content
}

func short(data []byte, at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }

func long(data []byte, at int) int64 { return int64(binary.LittleEndian.Uint32(data[at:])) }

// members lists those of an archive of less than 4 GB.
func members(file *os.File, size int64) (list []member, err error) {
	tail := make([]byte, min(size, mostComment+endBytes))
	if _, err := file.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	end := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if end < 0 || len(tail)-end < endBytes || long(tail, end+12) > mostEntries {
		return nil, errNoZIP
	}
	entries := make([]byte, long(tail, end+12))
	if _, err := file.ReadAt(entries, long(tail, end+16)); err != nil {
		return nil, err
	}
	for all := 0; len(entries) > 0; entries = entries[all:] {
		if len(entries) >= entryBytes {
			all = entryBytes + short(entries, 28) + short(entries, 30) + short(entries, 32)
		}
		if len(entries) < max(all, entryBytes) || !bytes.HasPrefix(entries, []byte("PK\x01\x02")) {
			return nil, errNoZIP
		}
		name := string(entries[entryBytes : entryBytes+short(entries, 28)])
		list = append(list, member{name, short(entries, 10) == isDeflated, long(entries, 42), long(entries, 20)})
	}
	return list, nil
}

// open reads a member's content.
func (m member) open(file *os.File) (io.Reader, error) {
	head := make([]byte, localBytes)
	if _, err := file.ReadAt(head, m.at); err != nil {
		return nil, err
	}
	packed := io.NewSectionReader(file, m.at+localBytes+int64(short(head, 26)+short(head, 28)), m.size)
	if m.isDeflated {
		return flate.NewReader(packed), nil
	}
	return packed, nil
}
