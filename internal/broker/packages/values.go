package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/jsonbound"
)

const (
	// maxValue bounds one value of a page that is read at once, such as the data on a version.
	maxValue = 2 << 20
	// maxListed is the most values of a page that are read one by one: files, versions, members of its own. The largest known pages list
	// some ten thousand.
	maxListed = 100_000
)

var (
	errValueTooLong = fmt.Errorf("a value of more than %d MiB", maxValue>>20)
	errListsTooMany = fmt.Errorf("more than %d entries", maxListed)
)

// values reads JSON value by value, so that a page is never in memory as a whole.
type values struct {
	*json.Decoder
	source *rationed
	read   int // values
}

func readValues(from io.Reader) *values {
	source := &rationed{from: from, left: maxValue}
	return &values{Decoder: json.NewDecoder(source), source: source}
}

// rationed is a reader that ends by an error after so many bytes.
type rationed struct {
	from io.Reader
	left int
}

func (r *rationed) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errValueTooLong
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// open reads the bracket that a list or an object begins with.
func (v *values) open(bracket json.Delim) error {
	v.source.left = maxValue
	token, err := v.Token()
	if err == nil && token != bracket {
		err = fmt.Errorf("%v where %v is expected", token, bracket)
	}
	return err
}

// object reads an object; member reads the value of each member.
func (v *values) object(member func(name string) error) error {
	if err := v.open('{'); err != nil {
		return err
	}
	for v.More() {
		v.source.left = maxValue
		name, err := v.Token()
		if err == nil {
			err = member(name.(string)) // the decoder lets nothing else be a name
		}
		if err != nil {
			return err
		}
	}
	_, err := v.Token()
	return err
}

// list reads a list; element reads each element.
func (v *values) list(element func() error) error {
	if err := v.open('['); err != nil {
		return err
	}
	for v.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := v.Token()
	return err
}

// raw reads any value, as it stands there.
func (v *values) raw() (json.RawMessage, error) {
	if v.read++; v.read > maxListed {
		return nil, errListsTooMany
	}
	v.source.left = maxValue
	var raw json.RawMessage
	if err := v.Decode(&raw); err != nil {
		return nil, err
	}
	return raw, jsonbound.Request.Check(raw)
}

// into reads a value into a pointer's target.
func (v *values) into(value any) error {
	raw, err := v.raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, value)
}

// end returns an error if there is more.
func (v *values) end() error {
	v.source.left = maxValue
	if _, err := v.Token(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("more than one value"), err)
	}
	return nil
}
