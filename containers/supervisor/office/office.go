// Package office finds what a document had and has no more once it was written again: programs that write office files drop the parts
// that they do not know, without a word. [Gone] compares two states of a file.
package office

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	mostBytes  = 64 << 20 // of a file, packed and unpacked
	mostLetter = 64       // of an element's name
)

// part is a part of documents that readers miss: files of this pattern, or elements in them.
type part struct{ files, element, name string }

var parts = []part{
	{"xl/worksheets/sheet*.xml", "", "sheet"},
	{"ppt/slides/slide*.xml", "", "slide"},
	{"*/charts/chart*.xml", "", "chart"},
	{"xl/pivotTables/*.xml", "", "pivot table"},
	{"xl/tables/*.xml", "", "table"},
	{"*/media/*", "", "picture"},
	{"*/diagrams/data*.xml", "", "SmartArt graphic"},
	{"*/embeddings/*", "", "embedded file"},
	{"xl/slicers/*.xml", "", "slicer"},
	{"*/vbaProject.bin", "", "macro project"},
	{"ppt/notesSlides/*.xml", "", "page of notes"},
	{"word/header*.xml", "", "header"},
	{"word/footer*.xml", "", "footer"},
	{"xl/workbook.xml", "definedName", "defined name"},
	{"xl/worksheets/sheet*.xml", "f", "formula"},
	{"xl/worksheets/sheet*.xml", "dataValidation", "data validation"},
	{"xl/worksheets/sheet*.xml", "cfRule", "conditional format"},
	{"xl/worksheets/sheet*.xml", "sparkline", "sparkline"},
	{"xl/worksheets/sheet*.xml", "hyperlink", "link"},
	{"xl/comments*.xml", "comment", "comment"},
	{"xl/comments/comment*.xml", "comment", "comment"},
	{"ppt/comments/*.xml", "cm", "comment"},
	{"word/comments.xml", "comment", "comment"},
	{"word/document.xml", "ins", "tracked insertion"},
	{"word/document.xml", "del", "tracked deletion"},
	{"word/document.xml", "oMath", "formula"},
	{"word/document.xml", "sdt", "content control"},
	{"word/document.xml", "bookmarkStart", "bookmark"},
	{"word/footnotes.xml", "footnote", "footnote"},
	{"content.xml", "changed-region", "tracked change"},
	{"content.xml", "object", "chart or formula"},
	{"content.xml", "named-range", "defined name"},
	{"content.xml", "content-validation", "data validation"},
	{"content.xml", "data-pilot-table", "pivot table"},
	{"content.xml", "annotation", "comment"},
}

// Is reports whether a file of a name is a document that can be compared.
func Is(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".xlsx", ".xlsm", ".docx", ".docm", ".pptx", ".pptm", ".ods", ".odt", ".odp":
		return true
	}
	return false
}

// Gone names what a document had and has no more, such as "2 charts" or "1 of 3 defined names". It names nothing of files that are no
// documents, or too large to be compared: over 64 MiB, packed or not.
func Gone(was, is *os.File) (names []string) {
	before, order := count(was)
	after, _ := count(is)
	if before == nil || after == nil {
		return nil
	}
	for _, name := range order {
		switch had, has := before[name], after[name]; {
		case has == 0:
			names = append(names, fmt.Sprintf("%d %s", had, plural(name, had)))
		case has < had:
			names = append(names, fmt.Sprintf("%d of %d %s", had-has, had, plural(name, had)))
		}
	}
	return names
}

func plural(name string, n int) string {
	switch first, rest, _ := strings.Cut(name, " of "); {
	case n == 1:
		return name
	case rest != "":
		return first + "s of " + rest
	}
	return name + "s"
}

// count returns how many of each part there are, and which, in the order of the table; nil: it is no document, or too large.
func count(file *os.File) (counts map[string]int, order []string) {
	info, err := file.Stat()
	if err != nil || info.Size() > mostBytes {
		return nil, nil
	}
	archive, err := members(file, info.Size())
	if err != nil {
		return nil, nil
	}
	counts = map[string]int{}
	left := int64(mostBytes)
	for _, f := range archive {
		var elements map[string]int
		for _, p := range parts {
			switch matches, _ := path.Match(p.files, f.name); {
			case !matches:
				continue
			case p.element == "":
				counts[p.name]++
				continue
			case elements == nil:
				if elements, left = tags(file, f, left); left <= 0 {
					return nil, nil
				}
			}
			counts[p.name] += elements[p.element]
		}
	}
	for _, p := range parts {
		if counts[p.name] > 0 && !slices.Contains(order, p.name) {
			order = append(order, p.name)
		}
	}
	return counts, order
}

// tags counts the elements of an XML file by their names, and returns how many bytes may still be read.
func tags(file *os.File, f member, left int64) (map[string]int, int64) {
	content, err := f.open(file)
	if err != nil {
		return nil, 0
	}
	limited := &io.LimitedReader{R: content, N: left}
	text, counts := bufio.NewReader(limited), map[string]int{}
	for {
		if _, err = text.ReadSlice('<'); errors.Is(err, bufio.ErrBufferFull) {
			continue
		} else if err != nil {
			break
		}
		head, _ := text.Peek(mostLetter)
		name := head[:max(0, bytes.IndexAny(head, " />\t\r\n"))]
		if at := bytes.IndexByte(name, ':'); at >= 0 {
			name = name[at+1:]
		}
		counts[string(name)]++
	}
	if !errors.Is(err, io.EOF) {
		return nil, 0
	}
	return counts, limited.N
}
