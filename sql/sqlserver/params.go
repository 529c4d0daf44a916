package sqlserver

import (
	dbsql "database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
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
		return bindNumber(n, string(v))
	default:
		return nil, checked.ErrParam(n, param, fmt.Sprintf("SQL Server has no arrays: give it as a JSON text and read it with IN (SELECT value FROM OPENJSON(@p%d)).", n))
	}
}

// bindNumber returns whole numbers as bigint and others as float, and refuses those that would change their value.
func bindNumber(n int, digits string) (any, error) {
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return whole, nil
	}
	float, err := strconv.ParseFloat(digits, 64)
	if math.IsNaN(float) || err == nil && math.IsInf(float, 0) {
		return nil, fault.New(fault.SQLRejected, "Use NULL, or leave such rows out.", "Parameter %d is %s, which SQL Server's numbers cannot be.", n, digits)
	}
	if err == nil && sameNumber(digits, strconv.FormatFloat(float, 'e', -1, 64)) {
		return float, nil
	}
	return nil, fault.New(fault.SQLRejected, castHint, "Parameter %d, %.60s, is a number that neither bigint nor float holds exactly.", n, digits)
}

func sameNumber(a, b string) bool {
	da, ea := significant(a)
	db, eb := significant(b)
	return da == db && (ea == eb || strings.Trim(da, "-") == "")
}

// significant returns a number's digits without zeros at the ends, and the power of ten of the last one.
func significant(number string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent, _ = strconv.Atoi(power)
	sign := ""
	if rest, negative := strings.CutPrefix(mantissa, "-"); negative {
		sign, mantissa = "-", rest
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	for strings.HasSuffix(digits, "0") {
		digits = digits[:len(digits)-1]
		exponent++
	}
	return sign + digits, exponent
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
