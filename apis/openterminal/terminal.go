package openterminal

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	terminals    = "/api/terminals"
	maxTerminals = 16       // of a principal at once
	maxMessage   = 64 << 10 // bytes from a client
	maxChat      = 200      // bytes of a chat's id; the terminals of one with a longer id begin at home
	authTime     = 10 * time.Second
	pingEvery    = 30 * time.Second
	lostAfter    = 3 * pingEvery
	closedAuth   = 4001 // its clients know it
)

// newTerminal is a terminal that nobody follows yet. Its id holds the request that made it, so nothing is kept.
type newTerminal struct {
	ID      string    `json:"id"`
	Created time.Time `json:"created_at"`
	PID     int       `json:"pid" jsonschema:"0: it begins when it is followed."`
}

// maker is what a terminal's id holds of the request that made it: WebSockets come without its headers.
type maker struct {
	Credential string `json:"c"`
	User       string `json:"u"`
	Chat       string `json:"s"`
}

func (c *call) newTerminal() (any, error) {
	of := maker{c.r.Header.Get("Authorization"), c.r.Header.Get("X-User-Id"), c.r.Header.Get("X-Session-Id")}
	if len(of.Chat) > maxChat {
		of.Chat = ""
	}
	return newTerminal{ID: c.seal.Token(terminals, string(web.Encode(of))), Created: time.Now().UTC()}, nil
}

// makerOf returns the maker in a terminal's id, or false.
func (c *chats) makerOf(id string) (of maker, is bool) {
	return of, json.Unmarshal([]byte(c.seal.Open(terminals, id)), &of) == nil
}

// translate is rest.API's: it gives the request for a terminal the headers of its maker. followTerminal asks for the token once more.
func (c *chats) translate(r *http.Request) {
	id, follows := strings.CutPrefix(r.URL.Path, prefix+terminals+"/")
	if of, is := c.makerOf(id); follows && is {
		for name, value := range map[string]string{"Authorization": of.Credential, "X-User-Id": of.User, "X-Session-Id": of.Chat} {
			if r.Header.Del(name); value != "" {
				r.Header.Set(name, value)
			}
		}
	}
}

// upgrader makes a WebSocket of a request. The server has looked at its origin.
var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (c *call) followTerminal() (any, error) {
	of, is := c.makerOf(c.r.PathValue("terminal_id"))
	if !is {
		return nil, fault.New(fault.NotFound, "Make one.", "There is no such terminal.")
	}
	if !websocket.IsWebSocketUpgrade(c.r) {
		return nil, fault.New(fault.InvalidArgument, "Open a WebSocket.", "A terminal is a WebSocket.")
	}
	defer c.open.Add(-1)
	if c.open.Add(1) > maxTerminals {
		return nil, fault.New(fault.ServerBusy, "Close one.", "%d terminals are open, which is the most.", maxTerminals)
	}
	socket, err := upgrader.Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil, nil // it has answered
	}
	defer func() { _ = socket.Close() }()
	socket.SetReadLimit(maxMessage)
	end := func(code int, why string) {
		_ = socket.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(authTime))
	}
	if of.Credential != "" && !authenticates(socket, of.Credential) {
		end(closedAuth, "Invalid API key")
		return nil, nil
	}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	p, err := c.Sessions().Program(ctx, sandbox.ProgramSpec{
		SessionID: c.session, Argv: []string{"bash", "-c", "cd -- " + apis.Quote("./"+c.cwd) + "; exec bash"}, Env: map[string]string{"TERM": "xterm-256color", "HOME": engine.WorkDir},
		Terminal: &sandbox.TerminalSize{Rows: 24, Cols: 80}, Caller: c.r.Context(),
	})
	if err != nil {
		end(websocket.CloseInternalServerErr, fault.From(err).Message[:min(len(fault.From(err).Message), 100)])
		return nil, nil
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		show(socket, p)
		end(websocket.CloseNormalClosure, "")
		_ = socket.Close()
	}()
	defer func() { p.Kill(); _ = socket.Close(); <-shown }()
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	obey(ctx, socket, p)
	return nil, nil
}

// authenticates reports whether the first message has the token of a credential.
func authenticates(socket *websocket.Conn, credential string) bool {
	var first struct{ Type, Token string }
	_ = socket.SetReadDeadline(time.Now().Add(authTime))
	_, text, err := socket.ReadMessage()
	return err == nil && json.Unmarshal(text, &first) == nil && first.Type == "auth" && subtle.ConstantTimeCompare([]byte("Bearer "+first.Token), []byte(credential)) == 1
}

// show sends a program's output to its end, with signs of life. A client that does not read loses the terminal in bounded time.
func show(socket *websocket.Conn, p *sandbox.Program) {
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for {
		var err error
		select {
		case out, more := <-p.Output:
			if !more {
				return
			}
			if len(out.Data) > 0 {
				_ = socket.SetWriteDeadline(time.Now().Add(web.WriteTime))
				err = socket.WriteMessage(websocket.BinaryMessage, out.Data)
			}
		case <-pings.C:
			err = socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(web.WriteTime))
		}
		if err != nil {
			p.Kill()
			for range p.Output { // to its end
			}
			return
		}
	}
}

// obey passes on what a client types, until it or the program is gone.
func obey(ctx context.Context, socket *websocket.Conn, p *sandbox.Program) {
	live := func(string) error { return socket.SetReadDeadline(time.Now().Add(lostAfter)) }
	socket.SetPongHandler(live)
	for live("") == nil {
		kind, message, err := socket.ReadMessage()
		if err != nil {
			return
		}
		var asked struct {
			Type       string
			Cols, Rows uint16
		}
		switch {
		case kind == websocket.BinaryMessage:
			err = p.Write(ctx, message)
		case json.Unmarshal(message, &asked) == nil && asked.Type == "resize":
			err = p.Resize(sandbox.TerminalSize{Rows: asked.Rows, Cols: asked.Cols})
		}
		if err != nil {
			return
		}
	}
}
