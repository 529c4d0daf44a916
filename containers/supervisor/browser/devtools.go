//go:build linux

package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"
)

// maxMessage bounds a message of the browser: a picture or document in base64.
const maxMessage = 24 << 20

// process is a browser that runs, and the conversation with it by Chrome's DevTools protocol: JSON and a zero byte. One goroutine
// speaks to it.
type process struct {
	pid      int
	in, out  *os.File
	messages chan message
	over     chan struct{} // closed when it is killed or ends
	once     sync.Once
	id       int
	session  string // of the page
	loaded   bool
	missing  []string // hosts and files that the page asked for in vain
	plain    []byte   // the file that it opens, if that does not name its encoding
	cutAt    int      // pixels of a picture that has not all of the page; 0: it has
	moves    bool     // the page still changed when it was drawn
	folder   string   // its own
	figures  kept
}

type message struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type request struct {
	ID        int            `json:"id"`
	Method    string         `json:"method"`
	SessionID string         `json:"sessionId,omitempty"`
	Params    map[string]any `json:"params,omitempty"`
}

// kill ends the browser with its programs.
func (p *process) kill() {
	p.once.Do(func() {
		close(p.over)
		if p.pid > 1 {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		}
		_, _ = p.in.Close(), p.out.Close()
	})
}

func (p *process) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// read passes the messages on. One that is too long or no JSON ends the browser.
func (p *process) read() {
	defer p.kill()
	from := bufio.NewReaderSize(p.out, 64<<10)
	for {
		text, err := readMessage(from)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text, &m) != nil {
			return
		}
		select {
		case p.messages <- m:
		case <-p.over:
			return
		}
	}
}

func readMessage(from *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := from.ReadSlice(0)
		if len(text)+len(part) > maxMessage {
			return nil, ErrTooLong
		}
		text = append(text, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(text, []byte{0}), err
		}
	}
}

// send sends a request without waiting for its answer.
func (p *process) send(session, method string, params map[string]any) error {
	p.id++
	text, err := json.Marshal(request{p.id, method, session, params})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, 0)); err != nil {
		return ErrEnded
	}
	return nil
}

// call sends a request, and decodes its result into result unless that is nil.
func (p *process) call(session, method string, params map[string]any, result any) error {
	if err := p.send(session, method, params); err != nil {
		return err
	}
	for wanted := p.id; ; {
		m, err := p.next()
		switch {
		case err != nil:
			return err
		case m.ID != wanted || m.Method != "":
			continue
		case m.Error != nil:
			return ErrAnswer
		case result == nil:
			return nil
		case json.Unmarshal(m.Result, result) != nil:
			return ErrAnswer
		}
		return nil
	}
}

// next returns the next message, and notes what the page tells of itself.
func (p *process) next() (m message, err error) {
	select {
	case m = <-p.messages:
	case <-p.over:
		return m, ErrEnded
	}
	if m.SessionID != p.session {
		return m, nil
	}
	switch m.Method {
	case "Page.javascriptDialogOpening": // it would wait for a person
		err = p.send(p.session, "Page.handleJavaScriptDialog", map[string]any{"accept": false})
	case "Page.loadEventFired":
		p.loaded = true
	case "Inspector.targetCrashed":
		err = ErrEnded
	case "Fetch.requestPaused":
		err = p.resume(m)
	}
	return m, err
}

const mostMissing = 3

// awaitLoad waits until the page and all that it names are loaded.
func (p *process) awaitLoad() (err error) {
	for err == nil && !p.loaded {
		_, err = p.next()
	}
	return err
}
