// Package principal identifies the principal of a request.
//
// A server serves one user over stdio, and any number of principals over HTTP. Each principal's sessions, files, links, histories and
// network log are its own: internal/server keeps services for each, and hands a request only those of its principal.
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

// Principal is a person or a program that a server works for. The zero value is the owner, who alone gets the figures of all and the
// sessions of stdio.
type Principal struct {
	// Name identifies the principal. Two sources that give the same name mean the same principal.
	Name string
	// Groups are the principal's groups according to its source.
	Groups []string
	// Source is the kind of its credential: "token", "oidc" or "header".
	Source string
}

// IsUser reports whether it is the owner.
func (p Principal) IsUser() bool { return p.Name == "" }

// Key is the principal's part of the names of files, volumes and addresses: 26 lower-case letters and digits that reveal the name only to a
// guess at it; empty for the owner.
func (p Principal) Key() string {
	if p.IsUser() {
		return ""
	}
	sum := sha256.Sum256([]byte("code-sandbox-mcp principal " + p.Name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// maxName bounds the characters of a principal's name.
const maxName = 200

// CheckName refuses unfit names: a name goes into logs and onto pages, where no two may look the same because of invisible characters or
// differently written accents.
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

// isUnseen reports whether a character is drawn as nothing or as a blank; a space is fine between others.
func isUnseen(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// ErrNone reports that a request shows no credential that an Authenticator knows.
var ErrNone = errors.New("the request does not say whose it is")

// ErrUnproven reports that a request names somebody by a header without proof that it may. Another Authenticator may know the request, but
// it never counts as the owner's.
var ErrUnproven = errors.New("the request names somebody, and does not show that it may")

// Authenticator identifies the principals of requests. Its methods are safe for several goroutines.
type Authenticator interface {
	// Authenticate returns the principal of a request. ErrNone: it shows no credential for this Authenticator, but perhaps for another. Any
	// other error: its credential is not good; the client is not told why.
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

// Still reports whether an Authenticator would still let a request in as the same principal. Long requests, such as streams, ask now and
// then, and end if their token was revoked or is over.
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

// Watch returns a context of a request without a known principal; known is called once it is identified.
func Watch(ctx context.Context, known func(Principal)) context.Context {
	return context.WithValue(ctx, watchKey{}, known)
}

// Of returns the principal of a context's request; the owner if the context names none.
func Of(ctx context.Context) Principal {
	p, _ := ctx.Value(key{}).(Principal)
	return p
}
