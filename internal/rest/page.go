package rest

import (
	"crypto/rand"
	_ "embed"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

// page is where the interface can be tried. Everything that it shows it asks of the server, with the token that is typed in.
func page(w http.ResponseWriter, _ *http.Request) {
	nonce := rand.Text()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store") // of the nonce
	_, _ = w.Write([]byte(strings.ReplaceAll(pageHTML, "NONCE", nonce)))
}
