package mysql

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// bindOne converts a JSON value to one that the driver sends beside the statement.
func bindOne(n int, param any) (any, error) {
	switch v := param.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		return bindNumber(n, string(v))
	default:
		return nil, checked.ErrParam(n, param, "MySQL has no arrays: write a ? for each value, or give a JSON text and read it with JSON_TABLE(?, '$[*]' COLUMNS (v INT PATH '$')).")
	}
}

// bindNumber returns whole numbers as BIGINT, others as DOUBLE if that is the same number, and else as their digits, which
// MySQL reads as a number where one is asked for.
func bindNumber(n int, digits string) (any, error) {
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return whole, nil
	}
	if whole, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return whole, nil
	}
	float, err := strconv.ParseFloat(digits, 64)
	if math.IsNaN(float) || math.IsInf(float, 0) {
		return nil, fault.New(fault.SQLRejected, "Use NULL, or leave such rows out.", "Parameter %d is %.60s, which MySQL's numbers cannot be.", n, digits)
	}
	if err == nil && strings.TrimLeft(digits, "-0.") != "" && strconv.FormatFloat(float, 'f', -1, 64) != digits && strconv.FormatFloat(float, 'g', -1, 64) != digits {
		return digits, nil
	}
	if err != nil {
		return nil, fault.New(fault.SQLRejected, "Give it as a text and convert it in the statement: CAST(? AS DECIMAL(65, 10)).", "Parameter %d, %.60s, is no number.", n, digits)
	}
	return float, nil
}
