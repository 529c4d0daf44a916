package web

import "net/http"

// Noted is an answer that notes its status. The default is 200, as in net/http.
type Noted struct {
	http.ResponseWriter
	Status int

	sent bool
}

// NoteStatus returns an answer that notes the status of another.
func NoteStatus(w http.ResponseWriter) *Noted {
	return &Noted{ResponseWriter: w, Status: http.StatusOK}
}

// WriteHeader implements http.ResponseWriter. Statuses below 200 come before the one that counts.
func (n *Noted) WriteHeader(status int) {
	if !n.sent && status >= http.StatusOK {
		n.Status, n.sent = status, true
	}
	n.ResponseWriter.WriteHeader(status)
}

func (n *Noted) Write(b []byte) (int, error) {
	n.sent = true
	return n.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (n *Noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }
