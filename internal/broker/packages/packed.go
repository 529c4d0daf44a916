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

// errHeavy reports that a page takes more memory than its request may use.
var errHeavy = errors.New("the page takes more memory than the request has")

// packed holds records in a fraction of their memory: pages list thousands of files that are nearly the same. Several readers may use it at
// once.
type packed struct{ blob []byte }

// packer makes one, within a bound.
type packer struct {
	all  int64 // that it may take
	room int64 // the room left, for data kept beside the records as well
	blob bytes.Buffer
	into *flate.Writer
}

func newPacker(room int64) *packer {
	p := &packer{all: room, room: room}
	p.into, _ = flate.NewWriter(&p.blob, flate.BestSpeed) // a level that there is
	return p
}

// list takes room for the data on a file or a version while an answer is written.
func (p *packer) list() error { return p.spend(2 * mapEntry) }

// mapEntry is about the size of a map's entry beside its texts.
const mapEntry = 80

// add adds a record. All records of a page hold the same number of texts.
func (p *packer) add(texts ...[]byte) error {
	for _, text := range texts {
		var length [binary.MaxVarintLen64]byte
		_, _ = p.into.Write(binary.AppendUvarint(length[:0], uint64(len(text)))) // a buffer takes everything
		_, _ = p.into.Write(text)
	}
	return p.check()
}

// spend takes room for data kept beside the records.
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

// cost returns the memory of the packed page.
func (p *packer) cost() int64 { return p.all - p.room + int64(p.blob.Len()) }

// each iterates over the records, each of texts texts. A record is valid until the next one.
func (p packed) each(texts int) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		from := bufio.NewReader(flate.NewReader(bytes.NewReader(p.blob)))
		record := make([][]byte, texts)
		for {
			for i := range record {
				length, err := binary.ReadUvarint(from)
				if err != nil {
					return // the end: this package wrote the data that it reads here
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
