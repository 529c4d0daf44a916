package sqlserver

import (
	dbsql "database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

const castHint = "Give it as a text and convert it in the statement: CAST(@p1 AS decimal(38, 10))."

// bindOne converts a JSON value to one that the driver sends beside the statement.
func bindOne(n int, param any) (any, error) {
	switch v := param.(type) {
	case nil:
		return dbsql.NullString{}, nil // a NULL without a type is none of a text
	case bool, string:
		return v, nil
	case json.Number:
		return checked.BindNumber(n, v, "SQL Server", castHint, "bigint")
	default:
		return nil, checked.ErrParam(n, param, fmt.Sprintf("SQL Server has no arrays: give it as a JSON text and read it with IN (SELECT value FROM OPENJSON(@p%d)).", n))
	}
}

// declarations returns the parameters' types as the driver declares them, for the server's description of a statement.
func declarations(bound []any) string {
	parts := make([]string, len(bound))
	for i, value := range bound {
		parts[i] = fmt.Sprintf("@p%d %s", i+1, declaration(value))
	}
	return strings.Join(parts, ", ")
}

func declaration(value any) string {
	switch v := value.(type) {
	case bool:
		return "bit"
	case int64:
		return "bigint"
	case float64:
		return "float"
	case string:
		if n := len(utf16.Encode([]rune(v))); n > 0 && n <= 4000 {
			return fmt.Sprintf("nvarchar(%d)", n)
		}
		return "nvarchar(max)"
	default:
		return "nvarchar(4000)"
	}
}
