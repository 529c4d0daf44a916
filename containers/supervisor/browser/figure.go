//go:build linux

package browser

import (
	"bytes"
	"encoding/json"
	"os"
)

// A figure is a page with its data apart from its scripts. The browser opens such a page once without the data, keeps it, and hands the data
// of the next figure with the same scripts to its function codeSandboxDraw, which no data of a figure can change: they are JSON.
const (
	dataBegin = `<script type="application/json" id="code-sandbox-figure">`
	dataEnd   = `</script>`
)

// kept is the page of the last figure.
type kept struct {
	rest    []byte // all but the data
	target  string // empty: there is none
	session string
}

// cut returns the data of a figure and the rest of its page; nil: the file is none.
func cut(path string) (data, rest []byte) {
	before, after, found := bytes.Cut(readFile(path), []byte(dataBegin))
	data, after, closed := bytes.Cut(after, []byte(dataEnd))
	if !found || !closed || !json.Valid(data) {
		return nil, nil
	}
	return data, append(bytes.Clone(before), after...)
}

// drawFigure draws a figure on the page that is kept for its scripts, and leaves nothing of it there.
func (p *process) drawFigure(page Page, data, rest []byte) ([]byte, error) {
	if err := p.keep(rest); err != nil {
		return nil, err
	}
	p.begin(p.figures.session)
	if err := p.resize(leastWidth, height); err != nil {
		return nil, err
	}
	literal, err := json.Marshal(string(data))
	if err != nil {
		return nil, err
	}
	if err := p.evaluate("codeSandboxDraw(JSON.parse("+string(literal)+"))", nil); err != nil {
		return nil, err
	}
	drawn, err := p.take(page)
	if err == nil {
		err = p.evaluate("codeSandboxClear()", nil)
	}
	return drawn, err
}

// keep opens the page of a figure's scripts, unless it is open.
func (p *process) keep(rest []byte) error {
	if p.figures.target != "" && bytes.Equal(p.figures.rest, rest) {
		return nil
	}
	p.forget()
	file := p.folder + "/figure.html"
	if err := os.WriteFile(file, rest, 0o600); err != nil {
		return err
	}
	target, session, err := p.open(file)
	p.figures = kept{rest, target, session}
	return err
}

// forget closes the page that is kept.
func (p *process) forget() {
	if p.figures.target != "" {
		_ = p.send("", "Target.closeTarget", map[string]any{"targetId": p.figures.target})
	}
	p.figures = kept{}
}
