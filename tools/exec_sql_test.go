package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

func TestWideValuesAreCutInAnAnswer(t *testing.T) {
	columns := []sql.Column{{Name: "n", Kind: sql.Integer}, {Name: "t", Kind: sql.Text}}
	for n, want := range map[int]bool{100: false, 5000: true} {
		rows, cut := jsonRows([][][]byte{{[]byte("7"), []byte(strings.Repeat("é", n))}, {nil, []byte("x")}}, columns, 2000)
		written, err := json.Marshal(rows)
		text := string(written)
		if cut != want || strings.Contains(text, "… (5,000 characters)") != want || len(text) > 4200 || !strings.HasPrefix(text, `[[7,"é`) || !strings.HasSuffix(text, `[null,"x"]]`) || err != nil {
			t.Errorf("of %d characters: %v, %d bytes: %.100s", n, cut, len(text), text)
		}
	}
}
