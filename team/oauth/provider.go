// Where people sign in: an OpenID Connect issuer.

package oauth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oidc"
)

const (
	maxRenewal = 4 << 10 // bytes, so that it fits into a page's form
	// discoveryFresh is the time for which the issuer's metadata is cached, and discoveryAgain that for its absence.
	discoveryFresh = 10 * time.Minute
	discoveryAgain = 5 * time.Second
)

// Provider is an OpenID Connect issuer to which browsers are sent. All fields are required.
type Provider struct {
	Issuer                 string
	ClientID, ClientSecret string
	// Verify checks an ID token: its signature, its issuer, that it is for ClientID, and its time. It returns its principal, nonce and end.
	Verify func(ctx context.Context, idToken string) (p principal.Principal, nonce string, until time.Time, err error)
}

// provider is a Provider with its metadata.
type provider struct {
	Provider
	client *http.Client
	now    func() time.Time

	mu    sync.Mutex // held while it is asked
	found oidc.Discovery
	err   error
	until time.Time
}

// discover returns where the issuer's endpoints are. Strangers come here as well, so it is asked seldom, and once at a time.
func (p *provider) discover(ctx context.Context) (oidc.Discovery, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Before(p.until) {
		return p.found, p.err
	}
	// The others want the answer as well where the first does not wait for it.
	p.found, p.err = oidc.Discover(context.WithoutCancel(ctx), p.client, p.Issuer)
	if p.err == nil {
		p.err = errors.Join(oidc.CheckEndpoint("authorization endpoint", p.found.Authorize), oidc.CheckEndpoint("token endpoint", p.found.Token))
	}
	p.until = p.now().Add(discoveryFresh)
	if p.err != nil {
		p.until = p.now().Add(discoveryAgain)
	}
	return p.found, p.err
}

// config says how the issuer is asked. back is where it sends a browser; empty: nowhere.
func (p *provider) config(ctx context.Context, back string) (*oauth2.Config, error) {
	found, err := p.discover(ctx)
	style := oauth2.AuthStyleInParams
	// Without a secret a client shows its id in the form. An issuer that lists no methods takes Basic.
	if p.ClientSecret != "" && (len(found.Methods) == 0 || slices.Contains(found.Methods, methodBasic)) {
		style = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: back, Scopes: []string{"openid", "profile", "email"},
		Endpoint: oauth2.Endpoint{AuthURL: found.Authorize, TokenURL: found.Token, AuthStyle: style},
	}, err
}

// address is where a browser goes to sign in.
func (p *provider) address(ctx context.Context, back, state, nonce, challenge string) (string, error) {
	config, err := p.config(ctx, back)
	if err != nil {
		return "", err
	}
	return config.AuthCodeURL(state, oauth2.SetAuthURLParam("nonce", nonce), oauth2.SetAuthURLParam("code_challenge", challenge), oauth2.SetAuthURLParam("code_challenge_method", "S256")), nil
}

// said holds the issuer's data on a person, their end, and the refresh token that renews them; empty: none.
type said struct {
	who     principal.Principal
	until   time.Time
	renewal string
}

// exchange returns the person who signed in.
func (p *provider) exchange(ctx context.Context, code, back, verifier, nonce string) (said, error) {
	now, given, err := p.ask(ctx, back, func(ctx context.Context, c *oauth2.Config) (*oauth2.Token, error) {
		return c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	})
	if err == nil && subtle.ConstantTimeCompare([]byte(given), []byte(nonce)) != 1 {
		err = errors.New("its ID token is of another sign-in: the nonce differs")
	}
	return now, err
}

// renew returns the issuer's present data. errNotGood: it refuses to renew them.
func (p *provider) renew(ctx context.Context, renewal string) (said, error) {
	now, _, err := p.ask(ctx, "", func(ctx context.Context, c *oauth2.Config) (*oauth2.Token, error) {
		return c.TokenSource(ctx, &oauth2.Token{RefreshToken: renewal}).Token()
	})
	now.renewal = cmp.Or(now.renewal, renewal)
	return now, err
}

// ask asks the token endpoint, and returns the nonce of its ID token as well.
func (p *provider) ask(ctx context.Context, back string, of func(context.Context, *oauth2.Config) (*oauth2.Token, error)) (now said, nonce string, err error) {
	config, err := p.config(ctx, back)
	if err != nil {
		return now, "", err
	}
	token, err := of(context.WithValue(ctx, oauth2.HTTPClient, p.client), config)
	var refusal *oauth2.RetrieveError
	switch {
	case errors.As(err, &refusal): // its text holds the whole answer
		err = fmt.Errorf("its token endpoint answers %d %.60q", refusal.Response.StatusCode, refusal.ErrorCode)
		// Others, such as 429 or invalid_client, say nothing of the person.
		if refusal.ErrorCode == "invalid_grant" || refusal.ErrorCode == "" && refusal.Response.StatusCode == http.StatusBadRequest {
			err = fmt.Errorf("%w: %w", errNotGood, err)
		}
		return now, "", err
	case err != nil: // it contains the address, in which there is no secret
		return now, "", err
	}
	if len(token.RefreshToken) <= maxRenewal {
		now.renewal = token.RefreshToken
	}
	id, _ := token.Extra("id_token").(string)
	now.who, nonce, now.until, err = p.Verify(ctx, id)
	switch {
	case errors.Is(err, oidc.ErrKeys):
		return now, "", fmt.Errorf("its ID token: %w", err)
	case err != nil:
		return now, "", fmt.Errorf("%w: its ID token: %w", errNotGood, err)
	case now.who.IsUser(): // who would be the operator
		return now, "", fmt.Errorf("%w: its ID token does not say who it is", errNotGood)
	}
	return now, nonce, nil
}
