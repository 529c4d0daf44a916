// The endpoints that clients ask themselves: tokens, and their revocation.

package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

var (
	isVerifier = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
	errGrant   = protocolError{"invalid_grant", "the code or token is not good, or not for this client"}
	errClient  = protocolError{"invalid_client", "the client is not known here, or does not show that it is the one"}
	errTarget  = protocolError{"invalid_target", "tokens are good for one resource here, which the metadata names"}
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// form reads a request of a client, and who that says it is.
func (s *Server) form(w http.ResponseWriter, r *http.Request) (form url.Values, id string, err error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, "", protocolError{"invalid_request", "the body has to be a form"}
	}
	form = r.PostForm
	for _, values := range form {
		if len(values) > 1 {
			return nil, "", protocolError{"invalid_request", "a parameter is there twice"}
		}
	}
	id, secret, method := form.Get("client_id"), form.Get("client_secret"), methodPost
	if user, password, is := r.BasicAuth(); is {
		user, errUser := url.QueryUnescape(user)
		password, errPassword := url.QueryUnescape(password)
		if errUser != nil || errPassword != nil || secret != "" || id != "" && id != user {
			return nil, "", errClient
		}
		id, secret, method = user, password, methodBasic
	}
	if secret == "" {
		method = methodNone
	}
	if isDocument(id) {
		if secret != "" {
			return nil, "", errClient
		}
		return form, id, nil
	}
	known, err := s.o.Store.client(id)
	switch {
	case err != nil:
		return nil, "", err
	// A client with a record that made room for another's keeps its grants, which are good for it alone.
	case known == nil && secret != "", known != nil && known.Secret != "" && (method != known.Method || !isSum(known.Secret, secret)), known != nil && known.Secret == "" && secret != "":
		return nil, "", errClient
	}
	return form, id, nil
}

// token is the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	form, id, err := s.form(w, r)
	var out issued
	if err == nil {
		switch {
		case form.Has("resource") && !s.isResource(form.Get("resource")):
			err = errTarget
		case form.Get("grant_type") == grantCode:
			out, err = s.redeem(r, id, form)
		case form.Get("grant_type") == grantRefresh:
			out, err = s.refresh(r, id, form)
		case form.Get("grant_type") == "":
			err = protocolError{"invalid_request", "grant_type is missing"}
		default:
			err = protocolError{"unsupported_grant_type", "grant_type must be authorization_code or refresh_token"}
		}
	}
	if err != nil {
		s.refuse(w, r, id, err)
		return
	}
	answer := map[string]any{"access_token": out.access, "token_type": "Bearer", "expires_in": int(out.lasts.Seconds()), "scope": out.scope}
	if out.refresh != "" {
		answer["refresh_token"] = out.refresh
	}
	w.Header().Set("Pragma", "no-cache")
	web.JSON(w, http.StatusOK, answer)
}

// refuse answers a client with the error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, id string, err error) {
	var told protocolError
	switch {
	case errors.As(err, &told):
	case errors.Is(err, errUnknown), errors.Is(err, errExpired), errors.Is(err, errReused), errors.Is(err, errAudience), errors.Is(err, errNotGood):
		s.warn("a client gets no token", "client", id, "reason", err)
		told = errGrant
	default:
		s.o.Logger.Error("the authorization server fails", "error", err)
		web.Refuse(w)
		web.JSON(w, http.StatusInternalServerError, map[string]string{"error": "server_error"})
		return
	}
	// A client that is not known any more learns so, and registers anew.
	if told == errGrant && !isDocument(id) {
		if known, err := s.o.Store.client(id); err == nil && known == nil {
			told = errClient
		}
	}
	status := http.StatusBadRequest
	if told == errClient {
		status = http.StatusUnauthorized
		if r.Header.Get("Authorization") != "" {
			w.Header().Set("WWW-Authenticate", "Basic")
		}
	}
	refuse(w, status, told.code, told.description)
}

// redeem gives out the tokens for a code.
func (s *Server) redeem(r *http.Request, id string, form url.Values) (issued, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // until the grant is kept: a code that comes twice at once finds it
	c := s.codes[sumOf(form.Get("code"))]
	switch {
	case c == nil:
		return issued{}, errGrant
	case c.spent:
		if err := s.o.Store.revokeID(c.grant.ID); err != nil {
			return issued{}, err
		}
		s.o.Logger.Warn("a code came twice, and its grant is revoked", "client", id, "grant", c.grant.ID)
		s.revoked(r, &c.grant, "its code came twice")
		return issued{}, errGrant
	}
	c.spent = true // whoever got it by now: it is not tried again
	verifier := form.Get("code_verifier")
	switch {
	case s.o.Now().After(c.ends), c.Client != id, c.Redirect != form.Get("redirect_uri"),
		!isVerifier.MatchString(verifier), challengeOf(verifier) != c.Challenge:
		return issued{}, errGrant
	}
	if _, err := s.check(&c.grant); err != nil {
		return issued{}, err
	}
	return s.o.Store.add(c.grant, c.Refresh)
}

// refresh gives out new tokens for a refresh token.
func (s *Server) refresh(r *http.Request, id string, form url.Values) (issued, error) {
	for _, scope := range strings.Fields(form.Get("scope")) {
		if !slices.Contains([]string{Scope, scopeOffline}, scope) {
			return issued{}, protocolError{"invalid_scope", "the scope is " + Scope}
		}
	}
	var of Grant
	out, err := s.o.Store.refresh(form.Get("refresh_token"), func(g *Grant) error {
		of = *g
		if g.Client != id {
			return errGrant
		}
		_, err := s.check(g)
		return err
	}, func(g *Grant, renewal string) (now said, err error) {
		if s.provider == nil { // by now
			return now, errNotGood
		}
		if now, err = s.provider.renew(context.WithoutCancel(r.Context()), renewal); err == nil && now.who.Name != g.Principal {
			err = errNotGood
		}
		if errors.Is(err, errNotGood) {
			err = errors.Join(err, s.o.Store.revokeID(g.ID))
			s.revoked(r, g, "the issuer does not say any more who its person is")
		}
		return now, err
	})
	if errors.Is(err, errReused) {
		s.o.Logger.Warn("a refresh token was used twice, and its grant is revoked", "client", id, "grant", of.ID)
		s.revoked(r, &of, "a refresh token was used twice")
	}
	return out, err
}

// revoke takes back the grant of a token (RFC 7009): a client that is done with one of its tokens is done with all of them.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	form, id, err := s.form(w, r)
	var g *Grant
	if err == nil {
		g, err = s.o.Store.owner(form.Get("token"))
	}
	if err == nil && g != nil {
		if g.Client != id {
			err = errGrant
		} else if err = s.o.Store.revokeID(g.ID); err == nil {
			s.revoked(r, g, "its client is done with it")
		}
	}
	if err != nil {
		s.refuse(w, r, id, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK) // also where the token is none, as it is not good then
}
