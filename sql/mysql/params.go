package mysql

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// bindOne converts a JSON value to one that the driver sends beside the statement.
func bindOne(n int, param any) (any, error) {
	switch v := param.(type) {
	case nil, bool, string:
		return v, nil
	case json.Number:
		if whole, err := strconv.ParseUint(string(v), 10, 64); err == nil && whole > math.MaxInt64 {
			return whole, nil
		}
		return checked.BindNumber(n, v, "MySQL", "Give it as a text and convert it in the statement: CAST(? AS DECIMAL(65, 10)).", "BIGINT")
	default:
		return nil, checked.ErrParam(n, param, "MySQL has no arrays: write a ? for each value, or give a JSON text and read it with JSON_TABLE(?, '$[*]' COLUMNS (v INT PATH '$')).")
	}
}
