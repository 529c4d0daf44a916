package office

import (
	"archive/zip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

type files map[string]string

func (f files) write(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "a.xlsx"))
	must.OK(t, err)
	t.Cleanup(func() { _ = file.Close() })
	archive := zip.NewWriter(file)
	for name, content := range f {
		part, err := archive.Create(name)
		if err == nil {
			_, err = part.Write([]byte(content))
		}
		must.OK(t, err)
	}
	must.OK(t, archive.Close())
	return file
}

func TestWhatADocumentHasNoMore(t *testing.T) {
	const sheet = `<worksheet><c><f>A1</f></c><f/><mc:x><x:dataValidation a="1"/></mc:x></worksheet>`
	full := files{
		"xl/worksheets/sheet1.xml": sheet, "xl/worksheets/sheet2.xml": sheet, "xl/charts/chart1.xml": "", "xl/charts/chart2.xml": "", "xl/charts/style1.xml": "",
		"xl/workbook.xml": `<definedName name="a"/><definedName name="b"/><definedNames>`, "ppt/notesSlides/notesSlide1.xml": "", "ppt/notesSlides/notesSlide2.xml": "",
		"word/document.xml": `<w:ins w:id="1"><w:instrText/></w:ins>`,
	}
	for name, test := range map[string]struct {
		was, is files
		want    []string
	}{
		"as it was": {full, full, nil},
		"all of some": {
			full, files{"xl/worksheets/sheet1.xml": "<c/>", "xl/workbook.xml": `<definedName/>`},
			[]string{"1 of 2 sheets", "2 charts", "2 pages of notes", "1 of 2 defined names", "4 formulas", "2 data validations", "1 tracked insertion"},
		},
		"more":                   {files{"xl/workbook.xml": ""}, full, nil},
		"too large to be looked": {full, files{"xl/workbook.xml": strings.Repeat("<a/>", mostBytes/4)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Gone(test.was.write(t), test.is.write(t))
			should.Hold(t, slices.Equal(got, test.want), "got %q, want %q", got, test.want)
		})
	}
	none := must.Get(os.Open(os.DevNull))(t)
	defer func() { _ = none.Close() }()
	got := Gone(full.write(t), none)
	should.Hold(t, got == nil, "no document: %q", got)
}
