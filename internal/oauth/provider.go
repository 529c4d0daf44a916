// Where people sign in: an OpenID Connect issuer.

package oauth

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

const (
	providerTime = 10 * time.Second
	maxProvider  = 256 << 10
)

// Provider is an OpenID Connect issuer that browsers are handed over to. All fields have to be there but Client.
type Provider struct {
	Issuer                 string
	ClientID, ClientSecret string
	// Verify checks an ID token: its signature, its issuer, that it is for ClientID, and its time. It returns whose it is, and its nonce.
	Verify func(ctx context.Context, idToken string) (p principal.Principal, nonce string, err error)
	// Client asks the issuer. Nil: one with bounds.
	Client *http.Client
}

// endpoints are what is used of the issuer's discovery document.
type endpoints struct {
	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
}

// discover asks the issuer where its endpoints are: people sign in so seldom that it is not remembered.
func (p *Provider) discover(ctx context.Context) (endpoints, error) {
	var found endpoints
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.Issuer, "/")+"/.well-known/openid-configuration", nil)
	if err == nil {
		err = p.ask(request, &found)
	}
	switch {
	case err != nil:
		return endpoints{}, fmt.Errorf("its discovery document: %w", err)
	case found.Issuer != p.Issuer:
		return endpoints{}, fmt.Errorf("its discovery document is of the issuer %q", found.Issuer)
	case found.Authorize == "" || found.Token == "":
		return endpoints{}, errors.New("its discovery document names no endpoints")
	}
	return found, nil
}

func (p *Provider) ask(request *http.Request, into any) error {
	client := p.Client
	if client == nil {
		client = &http.Client{Timeout: providerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		var failed *url.Error // its words have the address, which has no secret
		if errors.As(err, &failed) {
			return failed
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProvider))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		var told struct{ Error string }
		_ = json.Unmarshal(body, &told)
		return fmt.Errorf("it answers %d %.60q", response.StatusCode, told.Error)
	}
	return json.Unmarshal(body, into)
}

// address is where a browser goes to sign in.
func (p *Provider) address(ctx context.Context, back, state, nonce, challenge string) (string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(found.Authorize)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("its authorization endpoint is not an address")
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": p.ClientID, "redirect_uri": back, "scope": "openid profile email", "state": state, "nonce": nonce,
		"code_challenge": challenge, "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// exchange returns who has signed in.
func (p *Provider) exchange(ctx context.Context, code, back, verifier, nonce string) (principal.Principal, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return principal.Principal{}, err
	}
	form := url.Values{"grant_type": {grantCode}, "code": {code}, "redirect_uri": {back}, "code_verifier": {verifier}, "client_id": {p.ClientID}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, found.Token, nil)
	if err != nil {
		return principal.Principal{}, err
	}
	basic := len(found.Methods) == 0
	for _, method := range found.Methods {
		basic = basic || method == methodBasic
	}
	switch {
	case p.ClientSecret == "":
	case basic:
		request.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret))
	default:
		form.Set("client_secret", p.ClientSecret)
	}
	body := form.Encode()
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		IDToken string `json:"id_token"`
	}
	if err := p.ask(request, &answer); err != nil {
		return principal.Principal{}, fmt.Errorf("its token endpoint: %w", err)
	}
	who, given, err := p.Verify(ctx, answer.IDToken)
	switch {
	case err != nil:
		return principal.Principal{}, fmt.Errorf("its ID token: %w", err)
	case subtle.ConstantTimeCompare([]byte(given), []byte(nonce)) != 1:
		return principal.Principal{}, errors.New("its ID token is of another sign-in: the nonce differs")
	case who.IsUser(): // who would be the operator
		return principal.Principal{}, errors.New("its ID token does not say who it is")
	}
	return who, nil
}
