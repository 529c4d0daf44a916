package checked

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// BindNumber returns the nth parameter, a whole number as int64 and another one as float64, and refuses one that would change its value. database
// is named in the error, whole is its type for int64, and cast the hint for such a number.
func BindNumber(n int, number json.Number, database, cast, whole string) (any, error) {
	digits := string(number)
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return i, nil
	}
	float, err := strconv.ParseFloat(digits, 64)
	if math.IsNaN(float) || err == nil && math.IsInf(float, 0) {
		return nil, fault.New(fault.SQLRejected, "Use NULL, or leave such rows out.", "Parameter %d is %s, which %s's numbers cannot be.", n, digits, database)
	}
	if err == nil && sameNumber(digits, strconv.FormatFloat(float, 'e', -1, 64)) {
		return float, nil
	}
	return nil, fault.New(fault.SQLRejected, cast, "Parameter %d, %.60s, is a number that neither %s nor a float holds exactly.", n, digits, whole)
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
