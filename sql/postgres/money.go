package postgres

import (
	"bytes"
	"math/big"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/regex"
)

// moneyOID is the type that the driver does not name.
const moneyOID = 790

// moneyFormat is how the session's lc_monetary, which statements rely on, writes the type money.
type moneyFormat struct {
	point  string
	digits int // behind the point
}

var zeroMoney = regexp.MustCompile(`0([^0-9]*)(0*)`)

// readMoney takes "0,00 €", which is zero.
func readMoney(zero []byte) (m moneyFormat) {
	if parts := zeroMoney.FindSubmatch(zero); parts != nil {
		m.point, m.digits = string(parts[1]), len(parts[2])
	}
	return m
}

// plain makes -1234.50 of "-1.234,50 €", "(1.234,50 €)" and their like: the digits are ASCII in every locale, and
// a minus is one of three.
func (m moneyFormat) plain(text []byte) []byte {
	digits := bytes.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
	var out []byte
	if bytes.ContainsAny(text, "-−(") {
		out = append(out, '-')
	}
	whole := max(0, len(digits)-m.digits)
	out = append(out, digits[:whole]...)
	if m.digits > 0 {
		out = append(append(out, '.'), digits[whole:]...)
	}
	return out
}

// local turns -1234.5 into "(1234,50)", which PostgreSQL reads whatever the locale's minus is. A text that is no number stays as it is.
func (m moneyFormat) local(text string) string {
	number := exactNumber(text)
	if number == nil {
		return text
	}
	amount := strings.Replace(new(big.Rat).Abs(number).FloatString(m.digits), ".", m.point, 1)
	if number.Sign() < 0 {
		return "(" + amount + ")"
	}
	return amount
}

var numberWords = regex.Late(`^-?[0-9]{1,1000}(\.[0-9]{1,1000})?([eE][+-]?[0-9]{1,3})?$`)

// exactNumber reads a number from JSON; nil if it is none, or one without end.
func exactNumber(text string) *big.Rat {
	if !numberWords().MatchString(text) {
		return nil
	}
	number, _ := new(big.Rat).SetString(text)
	return number
}
