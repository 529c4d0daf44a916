package packages

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"iter"

	"github.com/klauspost/compress/flate"
)

// errHeavy reports that a page takes more memory than its request has.
var errHeavy = errors.New("the page takes more memory than the request has")

// packed is records in a fraction of their memory: pages list thousands of files that are nearly the same. Any number of
// readers may have it at once.
type packed struct{ blob []byte }

// packer makes one, within a bound.
type packer struct {
	all  int64 // that it may take
	room int64 // that is left of it, for what is kept beside the records as well
	blob bytes.Buffer
	into *flate.Writer
}

func newPacker(room int64) *packer {
	p := &packer{all: room, room: room}
	p.into, _ = flate.NewWriter(&p.blob, flate.BestSpeed) // a level that there is
	return p
}

// list takes room for what will be known of a file or a version while an answer is written.
func (p *packer) list() error { return p.spend(2 * mapEntry) }

// mapEntry is about what an entry of a map takes beside its texts.
const mapEntry = 80

// add adds a record. Of any page, all records have as many texts.
func (p *packer) add(texts ...[]byte) error {
	for _, text := range texts {
		var length [binary.MaxVarintLen64]byte
		_, _ = p.into.Write(binary.AppendUvarint(length[:0], uint64(len(text)))) // a buffer takes everything
		_, _ = p.into.Write(text)
	}
	return p.check()
}

// spend takes room for what is kept beside the records.
func (p *packer) spend(bytes int) error {
	p.room -= int64(bytes)
	return p.check()
}

func (p *packer) check() error {
	if int64(p.blob.Len()) > p.room {
		return errHeavy
	}
	return nil
}

func (p *packer) close() packed {
	_ = p.into.Close()
	return packed{bytes.Clone(p.blob.Bytes())}
}

// cost is what the page takes that was packed.
func (p *packer) cost() int64 { return p.all - p.room + int64(p.blob.Len()) }

// each reads the records, of so many texts. A record is valid until the next one.
func (p packed) each(texts int) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		from := bufio.NewReader(flate.NewReader(bytes.NewReader(p.blob)))
		record := make([][]byte, texts)
		for {
			for i := range record {
				length, err := binary.ReadUvarint(from)
				if err != nil {
					return // the end: what is read was written here
				}
				record[i] = append(record[i][:0], make([]byte, length)...)
				if _, err := io.ReadFull(from, record[i]); err != nil {
					return
				}
			}
			if !yield(record) {
				return
			}
		}
	}
}
