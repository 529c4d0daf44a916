//go:build unix

package e2e

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
)

// makeDocuments writes one file of each kind that is given as text, and some that cannot be.
const makeDocuments = `
import bz2, gzip, io, lzma, os, tarfile, zipfile
import docx, openpyxl, pandas as pd, pypdf, zstandard
from odf import opendocument, table, text
from reportlab.pdfgen import canvas
os.makedirs('d', exist_ok=True)

d = docx.Document()
d.add_heading('Numbers', 1)
d.add_paragraph('seven – sieben\tand a tab')
t = d.add_table(rows=2, cols=2)
for i, cell in enumerate(c for row in t.rows for c in row.cells): cell.text = f'cell {i}'
d.add_paragraph('after the table')
d.save('d/a.docx')

two = {'Sales': pd.DataFrame({'city': ['Köln', 'Łódź'], 'n': [1, 2.5], 'day': pd.to_datetime(['2024-07-01', '2024-07-02'])}), 'Empty': pd.DataFrame()}
for name in 'd/a.xlsx', 'd/a.ods':
    with pd.ExcelWriter(name) as book:
        for sheet, frame in two.items(): frame.to_excel(book, sheet_name=sheet, index=False)
book = openpyxl.Workbook()
for row in ('a, b', 1), ('c', 2.0), ('sum', '=SUM(B1:B2)'): book.active.append(row)
book.active['F9'].font = openpyxl.styles.Font(bold=True)
book.save('d/formula.xlsx')
import datetime, re
book = openpyxl.Workbook()
for row in ('NA', 'None', 'null', 'n/a'), ('#DIV/0!', datetime.timedelta(hours=25.5), True), (3,): book.active.append(row)
book.active['A3'].number_format = 'yyyy'
book.active['B60000'] = 'far'
book.create_sheet('Next')['A1'] = 'after'
book.save('d/seen.xlsx')
with zipfile.ZipFile('d/seen.xlsx') as whole, zipfile.ZipFile('d/odd.xlsx', 'w') as odd:
    for name in whole.namelist(): odd.writestr(name, re.sub(rb'<v>3</v>', b'<v>x</v>', whole.read(name)) if name.endswith('sheet1.xml') else whole.read(name))

def archive(name, files):
    with zipfile.ZipFile(name, 'w', zipfile.ZIP_DEFLATED) as z:
        for path, content in files.items(): z.writestr(path, content)
A = 'http://schemas.openxmlformats.org/drawingml/2006/main'
import struct
def record(kind, data=b''): return (bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])) + bytes([len(data)]) + data
wide = lambda text: struct.pack('<I', len(text)) + text.encode('utf-16-le')
cell = lambda column, data: struct.pack('<II', column, 0) + data
row = lambda number: record(0, struct.pack('<I', number) + bytes(21))
schema = 'http://schemas.openxmlformats.org'
archive('d/errors.xlsb', {
    '[Content_Types].xml': f'<Types xmlns="{schema}/package/2006/content-types"/>',
    'xl/_rels/workbook.bin.rels': f'<Relationships xmlns="{schema}/package/2006/relationships"><Relationship Id="rId1" Type="{schema}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.bin"/></Relationships>',
    'xl/workbook.bin': record(131) + record(143) + record(156, struct.pack('<II', 0, 1) + wide('rId1') + wide('Sums')) + record(144) + record(132),
    'xl/worksheets/sheet1.bin': record(129) + record(148, struct.pack('<4I', 0, 2, 0, 2)) + record(145) + row(0) + record(5, cell(0, struct.pack('<d', 1.5)))
        + record(3, cell(1, b'\x07')) + row(2) + record(11, cell(2, b'\x2a' + bytes(10))) + record(146) + record(130)})
slide = lambda said: f'<p:sld xmlns:p="p" xmlns:a="{A}"><a:p><a:r><a:t>{said}</a:t></a:r></a:p></p:sld>'
archive('d/a.pptx', {'[Content_Types].xml': '<Types/>', **{f'ppt/slides/slide{n}.xml': slide(f'slide number {n}') for n in range(1, 12)}})

o = opendocument.OpenDocumentText()
o.text.addElement(text.H(outlinelevel=1, text='Title'))
p = text.P(text='one '); p.addElement(text.Span(text='two')); p.addText(' three'); o.text.addElement(p)
o.save('d/a.odt')

c = canvas.Canvas('d/a.pdf')
for n in 1, 2:
    c.drawString(72, 72, f'page with number {n}'); c.showPage()
c.save()
c = canvas.Canvas('d/row.pdf')
for x, cell in (450, '37.96'), (250, 'DIRECTOR'), (72, 'BAIN, J'): c.drawString(x, 700, cell)
c.acroForm.textfield(name='who', value='Ada', y=600)
c.acroForm.checkbox(name='paid', checked=True, y=500)
c.save()
for name, user in ('open.pdf', ''), ('locked.pdf', 'secret'):
    w = pypdf.PdfWriter(clone_from='d/a.pdf'); w.encrypt(user, 'owner', algorithm='AES-256'); w.write(f'd/{name}')

archive('d/a.zip', {'folder/one.txt': 'x' * 1000, 'zwei.csv': 'a'})
for end in 'tar', 'tar.gz', 'tar.bz2', 'tar.xz':
    with tarfile.open(f'd/a.{end}', 'w:' + end.partition('.')[2]) as tar: tar.add('d/a.zip')
open('d/a.csv.gz', 'wb').write(gzip.compress('a,b\n1,ü\n'.encode()))
zst = zstandard.compress('a,b\n'.encode()) + zstandard.compress('1,ü\n'.encode())
open('d/a.csv.zst', 'wb').write(zst)
open('d/broken.zst', 'wb').write(zst[:-2])
open('d/a.tar.zst', 'wb').write(zstandard.compress(open('d/a.tar', 'rb').read()))
open('d/noise.gz', 'wb').write(gzip.compress(bytes(range(256))))

open('d/broken.docx', 'wb').write(open('d/a.docx', 'rb').read()[:3000])
archive('d/other.docx', {'nothing.txt': 'x'})
open('d/broken.pdf', 'wb').write(b'%PDF-1.7 and nothing more')
open('d/broken.gz', 'wb').write(open('d/a.csv.gz', 'rb').read()[:-12])
for name, path in ('bomb.docx', 'word/document.xml'), ('bomb.xlsx', 'xl/workbook.xml'):
    with zipfile.ZipFile(f'd/{name}', 'w', zipfile.ZIP_DEFLATED) as z, z.open(path, 'w') as f:
        for _ in range(300): f.write(bytes(1 << 20))
laughs = '<!DOCTYPE x [<!ENTITY a0 "ha">' + ''.join(f'<!ENTITY a{n} "{"&a%d;" % (n - 1) * 10}">' for n in range(1, 12)) + ']>'
archive('d/laughs.docx', {'word/document.xml': laughs + '<x><p><t>&a11;</t></p></x>'})
archive('d/deep.docx', {'word/document.xml': '<x>' * 100_000 + '</x>' * 100_000})
with gzip.open('d/long.gz', 'wt') as f:
    for n in range(1_000_000): f.write(f'line {n}\n')
open('d/a.npy', 'wb').write(b'\x93NUMPY' + bytes(100))
`

func TestDocumentsAreGivenAsText(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	s.py(makeDocuments)
	for name, want := range map[string][]string{
		"a.docx":      {"Numbers\nseven – sieben\tand a tab\ncell 0 | cell 1\ncell 2 | cell 3\nafter the table\n"},
		"a.xlsx":      {"--- sheet Sales ---\ncity,n,day\nKöln,1,2024-07-01\nŁódź,2.5,2024-07-02", "--- sheet Empty ---"},
		"seen.xlsx":   {"NA,None,null,n/a\n#DIV/0!,25:30:00,TRUE\n1900-01-03\n[59996 empty rows]\n,far\n--- sheet Next ---\nafter\n"},
		"errors.xlsb": {"--- sheet Sums ---\n1.5,#DIV/0!\n\n,,#N/A\n"},
		"odd.xlsx":    {"TRUE\nx\n"},
		"row.pdf":     {"--- fields of the form ---\nwho: Ada\npaid: Yes\n--- page 1 ---\nBAIN, J  ", " DIRECTOR ", " 37.96\n"},
		"a.ods":       {"--- sheet Sales ---\ncity,n,day\nKöln,1,2024-07-01", "--- sheet Empty ---"},
		"a.pptx":      {"--- slide 1 ---\nslide number 1\n--- slide 2 ---", "--- slide 11 ---\nslide number 11\n"},
		"a.odt":       {"Title\none two three\n"},
		"a.pdf":       {"--- page 1 ---\npage with number 1\n--- page 2 ---\npage with number 2\n"},
		"open.pdf":    {"page with number 2"},
		"a.zip":       {" 1000 ", "folder/one.txt\n", "zwei.csv\n"},
		"a.tar":       {"d/a.zip\n"},
		"a.tar.gz":    {"d/a.zip\n"},
		"a.tar.bz2":   {"d/a.zip\n"},
		"a.tar.xz":    {"d/a.zip\n"},
		"a.csv.gz":    {"a,b\n1,ü\n"},
		"a.csv.zst":   {"a,b\n1,ü\n"},
		"a.tar.zst":   {"d/a.zip\n"},

		"formula.xlsx": {"--- sheet Sheet ---\n\"a, b\",1\nc,2\nsum,=SUM(B1:B2)\n"},
	} {
		s.call("read_artifact", object{"path": "d/" + name, "as": "text"}).wantText(t, want...)
	}
	for name, want := range map[string]string{
		"locked.pdf": "invalid_content", "broken.docx": "invalid_content", "other.docx": "invalid_content", "broken.pdf": "invalid_content",
		"broken.gz": "invalid_content", "broken.zst": "invalid_content", "laughs.docx": "invalid_content", "deep.docx": "invalid_content",
		"bomb.docx": "artifact_too_large", "bomb.xlsx": "artifact_too_large",
		"noise.gz": "invalid_argument", "a.npy": "invalid_argument",
	} {
		res := s.call("read_artifact", object{"path": "d/" + name, "as": "text"})
		res.wantCode(t, want)
		res.wantText(t, name, "Hint: ")
	}
	s.call("read_artifact", object{"path": "d/long.gz", "as": "text", "offset": 300_000, "limit": 2}).
		wantText(t, "line 300000\nline 300001\n", "go on with offset 300002", "only the first")
	s.call("read_artifact", object{"path": "d/a.docx", "as": "text", "unit": "bytes", "offset": 8, "limit": 5}).
		wantText(t, "bytes 8 to 13; go on with offset 13]\nseven\n")
	s.call("read_artifact", object{"path": "d/a.docx", "as": "image"}).wantCode(t, "invalid_argument")
	if got := s.py("'kernel', 'lives'").Meta.Run.value(); got != "('kernel', 'lives')" {
		t.Errorf("after hostile documents: %s", got)
	}
}

// What reads a document is the image's Python: where that lacks something, or is off, the answer says so.
func TestDocumentsAreReadByWhatThereIs(t *testing.T) {
	t.Parallel()
	bare := start(t, setup{args: []string{"--python-image", testimage.BarePython(t)}})
	bare.py("import zipfile\nwith zipfile.ZipFile('a.docx', 'w') as z: z.writestr('word/document.xml', '<x><p><t>said</t></p></x>')\n" +
		"open('a.pdf', 'wb').write(b'%PDF-1.4')")
	bare.call("read_artifact", object{"path": "a.docx", "as": "text"}).wantText(t, "said\n")
	missing := bare.call("read_artifact", object{"path": "a.pdf", "as": "text"})
	missing.wantCode(t, "execution_failed")
	missing.wantText(t, "no pypdf")
	off := start(t, setup{args: []string{"--python-image", "off"}})
	off.js("fs.writeFileSync('a.pdf', '%PDF-1.4')")
	off.call("read_artifact", object{"path": "a.pdf", "as": "text"}).wantCode(t, "engine_unavailable")
	off.js("fs.writeFileSync('a.ipynb', '{\"cells\": []}')")
	if res := off.call("read_artifact", object{"path": "a.ipynb", "as": "text"}); !strings.HasSuffix(strings.TrimSpace(res.text()), "ipynb+json]\n{\"cells\": []}") {
		t.Errorf("a notebook without Python:\n%s", res.text())
	}
}

// attached is the file that an answer brings along.
func (r toolResult) attached(t *testing.T) resourceContents {
	t.Helper()
	last := r.Content[len(r.Content)-1]
	if last.Type != "resource" {
		t.Fatalf("no file is attached: %.300s", r.line)
	}
	return last.Resource
}

func (c resourceContents) bytes(t *testing.T) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(c.Blob)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestABinaryFileComesWholeUpToTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	id := s.py("for n in 37, 150: open(f'output/{n}.bin', 'wb').write(bytes([0, 255]) * 500 * n)").Meta.Run.SessionID
	want := bytes.Repeat([]byte{0, 255}, 500*37)
	res := s.call("read_artifact", object{"path": "output/37.bin"})
	uri := "artifact://" + id + "/output/37.bin"
	if got := res.attached(t); !bytes.Equal(got.bytes(t), want) || got.URI != uri || got.MimeType != "application/octet-stream" {
		t.Errorf("attached is %.300s", res.line)
	}
	if got := s.readResource(uri).bytes(t); !bytes.Equal(got, want) {
		t.Errorf("%s gives %d bytes, or others", uri, len(got))
	}
	s.call("read_artifact", object{"path": "output/150.bin"}).wantCode(t, "artifact_too_large")
}
