// Package principal says whose a request is, and finds that out.
//
// A server has one user over stdio, and any number of principals over HTTP. Each principal's sessions, files, links, histories and
// network log are its own: internal/server keeps a place for each, and hands a request only that of its principal.
package principal

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Principal is a person or a program that a server works for. The zero value is the user whose server it is, who has what no
// principal has: the figures of all, and the sessions of stdio.
type Principal struct {
	// Name is what tells it from others. Two sources that give the same name mean the same principal.
	Name string
	// Groups are those that its source says it belongs to.
	Groups []string
	// Source is how it has shown who it is: "token", "oidc", "header" or "oauth".
	Source string
}

// IsUser reports whether it is the user whose server it is.
func (p Principal) IsUser() bool { return p.Name == "" }

// Key is the principal's part of the names of files, volumes and addresses: 26 lower-case letters and digits, which only who guesses
// the name can tell it by; empty for the user whose server it is.
func (p Principal) Key() string {
	if p.IsUser() {
		return ""
	}
	sum := sha256.Sum256([]byte("code-sandbox-mcp principal " + p.Name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// maxName is how many characters a principal's name may have.
const maxName = 200

// CheckName refuses what cannot be a principal's name: it goes into logs and onto pages, where no two may look the same for what
// cannot be seen in them, or for how their accents are written.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("a principal needs a name")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isUnseen) || strings.TrimSpace(name) != name:
		return fmt.Errorf("%q cannot be a principal's name: it has characters that cannot be seen, or blanks around it", name)
	case !norm.NFC.IsNormalString(name):
		return fmt.Errorf("%+q cannot be a principal's name as it is written: in Unicode's form NFC it is %+q", name, norm.NFC.String(name))
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("the principal's name has %d characters, and may have %d", utf8.RuneCountInString(name), maxName)
	}
	return nil
}

// isUnseen reports whether nothing, or a blank, is drawn for a character; a space is fine between others.
func isUnseen(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// ErrNone reports that a request shows nothing that an Authenticator knows.
var ErrNone = errors.New("the request does not say whose it is")

// ErrUnproven reports that a request names somebody by a header that it does not show it may set. Another Authenticator may know it, but nobody
// takes it for the user's whose server it is.
var ErrUnproven = errors.New("the request names somebody, and does not show that it may")

// Authenticator finds out whose requests are. Its methods may be called by any number of goroutines.
type Authenticator interface {
	// Authenticate returns the principal of a request. ErrNone: it shows nothing that this Authenticator looks at, and another may.
	// Any other error: what it shows is not good, which is not said to who asks.
	Authenticate(r *http.Request) (Principal, error)
}

// Chain asks several, and takes the first that knows the request.
type Chain []Authenticator

// Authenticate implements Authenticator.
func (c Chain) Authenticate(r *http.Request) (Principal, error) {
	none := ErrNone
	for _, a := range c {
		p, err := a.Authenticate(r)
		switch {
		case errors.Is(err, ErrUnproven):
			none = err
		case !errors.Is(err, ErrNone):
			return p, err
		}
	}
	return Principal{}, none
}

// Still reports whether an Authenticator would let a request in again, as the principal that it was let in as: what goes on for long, such
// as a stream, asks now and then, and ends where its token was taken back or is over.
func Still(a Authenticator, r *http.Request, p Principal) bool {
	again, err := a.Authenticate(r)
	return err == nil && again.Name == p.Name
}

// Bearer returns the token in the header Authorization; empty: there is none, or there are two headers, of which each reader could take
// another.
func Bearer(r *http.Request) string {
	if len(r.Header.Values("Authorization")) > 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

type key struct{}

// With returns a context of a principal's request.
func With(ctx context.Context, p Principal) context.Context {
	if known, watched := ctx.Value(watchKey{}).(func(Principal)); watched {
		known(p)
	}
	return context.WithValue(ctx, key{}, p)
}

type watchKey struct{}

// Watch returns a context of a request that nobody knows yet; known is called when somebody does.
func Watch(ctx context.Context, known func(Principal)) context.Context {
	return context.WithValue(ctx, watchKey{}, known)
}

// Of returns whose request a context is of; the user whose server it is where nothing says so.
func Of(ctx context.Context) Principal {
	p, _ := ctx.Value(key{}).(Principal)
	return p
}
