package reader

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/regex"
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
	exact := Exact(digits)
	if err == nil && exact != nil && exact.Cmp(Exact(strconv.FormatFloat(float, 'e', -1, 64))) == 0 {
		return float, nil
	}
	return nil, fault.New(fault.SQLRejected, cast, "Parameter %d, %.60s, is a number that neither %s nor a float holds exactly.", n, digits, whole)
}

var numberWords = regex.Late(`^-?[0-9]{1,1000}(\.[0-9]{1,1000})?([eE][+-]?[0-9]{1,3})?$`)

// Exact reads a number from JSON; nil if it is none, or one without end.
func Exact(text string) *big.Rat {
	if !numberWords().MatchString(text) {
		return nil
	}
	number, _ := new(big.Rat).SetString(text)
	return number
}
