package internet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"strconv"
	"strings"
	"time"
)

// hosts is what every host answers. repositories is the folder of Git repositories.
func hosts(git, repositories string) http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]http.HandlerFunc{
		"/text": func(w http.ResponseWriter, _ *http.Request) {
			send(w, "text/plain; charset=utf-8", "plain grüße 日本 🙂")
		},
		"/csv":    func(w http.ResponseWriter, _ *http.Request) { send(w, "text/csv", "a,b\n1,2\n3,4\n") },
		"/latin1": func(w http.ResponseWriter, _ *http.Request) { send(w, "text/plain; charset=iso-8859-1", "gr\xfc\xdfe") },
		"/br": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			send(w, "text/plain", "\x0b\x02\x80hello\x03")
		},
		"/bytes": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, number(r, "n"))))
		},
		"/to": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.FormValue("url"), max(number(r, "code"), http.StatusFound))
		},
		"/status": status, "/gzip": packed, "/chunks": chunks, "/cookie": cookies, "/cut": cut, "/early": early, "/echo": echo,
		"/sse": events, "/ws": websocket, "/private": private, "/closed": closed,
	} {
		mux.HandleFunc(path, answer)
	}
	mux.Handle("/git/", &cgi.Handler{Path: git, Args: []string{"http-backend"}, Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + repositories, "GIT_HTTP_EXPORT_ALL=1"}})
	return mux
}

func send(w http.ResponseWriter, kind, text string) {
	w.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(w, text)
}

func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

func status(w http.ResponseWriter, r *http.Request) {
	code := number(r, "n")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "status %d", code) // 204 and 304 have no body
}

func packed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, "packed text")
	_ = z.Close()
}

func chunks(w http.ResponseWriter, _ *http.Request) {
	for _, part := range []string{"a", "b", "c"} {
		_, _ = io.WriteString(w, part)
		_ = http.NewResponseController(w).Flush()
	}
}

func cookies(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
	http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
	send(w, "text/plain", r.Header.Get("Cookie"))
}

// cut announces more than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "the beginning")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func early(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Link", "</style.css>; rel=preload")
	w.WriteHeader(http.StatusEarlyHints)
	send(w, "text/plain", "after hints")
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "url": r.URL.String(), "headers": r.Header, "body": string(body)})
}

// events sends four, with far more than a second between the first and the last.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range 4 {
		if i > 0 {
			time.Sleep(time.Second)
		}
		_, _ = fmt.Fprintf(w, "event: word\ndata: %d\n\n", i)
		_ = http.NewResponseController(w).Flush()
	}
}

// websocket answers short messages with what it has heard.
func websocket(w http.ResponseWriter, r *http.Request) {
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer func() { _ = conn.Close() }()
	key := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = fmt.Fprintf(both, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(key[:]))
	for both.Flush() == nil {
		const text = 0x81 // and the last frame of its message
		message, err := frame(both.Reader)
		if err != nil || message == "" {
			return
		}
		_, _ = both.Write(append([]byte{text, byte(len("heard ") + len(message))}, "heard "+message...))
	}
}

// frame reads the text of a masked frame that is short; of others it is empty.
func frame(from *bufio.Reader) (string, error) {
	const longest = 100
	head := make([]byte, 6) // what it is, its length, the mask
	if _, err := io.ReadFull(from, head); err != nil {
		return "", err
	}
	n := int(head[1] & 0x7f)
	if head[0]&0xf != 1 || n > longest {
		return "", nil
	}
	data := make([]byte, n)
	_, err := io.ReadFull(from, data)
	for i := range data {
		data[i] ^= head[2+i%4]
	}
	return string(data), err
}

// private reports whether a request brings the value of the variable that it names, in one of the usual ways.
func private(w http.ResponseWriter, r *http.Request) {
	value := os.Getenv(r.FormValue("name"))
	user, password, _ := r.BasicAuth()
	ok := value != "" && (strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") == value || r.Header.Get("X-Api-Key") == value || user == value || password == value)
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusForbidden)
	}
	_, _ = fmt.Fprintf(w, `{"ok": %v}`, ok)
}

// closed wants API_KEY as the password, and asks for one.
func closed(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != "user" || password != os.Getenv("API_KEY") {
		w.Header().Set("WWW-Authenticate", `Basic realm="closed"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, "let in")
}
