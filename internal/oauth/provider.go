// Where people sign in: an OpenID Connect issuer.

package oauth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/oidc"
)

const (
	maxProvider = 256 << 10
	maxRenewal  = 4 << 10 // bytes, so that a page's form has room for it
	// discoveryFresh is how long is remembered what the issuer says of itself, and discoveryAgain that it could not be asked.
	discoveryFresh = 10 * time.Minute
	discoveryAgain = 5 * time.Second
)

// Provider is an OpenID Connect issuer that browsers are handed over to. All fields have to be there.
type Provider struct {
	Issuer                 string
	ClientID, ClientSecret string
	// Verify checks an ID token: its signature, its issuer, that it is for ClientID, and its time. It returns whose it is, its nonce, and its
	// end.
	Verify func(ctx context.Context, idToken string) (p principal.Principal, nonce string, until time.Time, err error)
}

// provider is a Provider with what it has said of itself.
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

// address is where a browser goes to sign in.
func (p *provider) address(ctx context.Context, back, state, nonce, challenge string) (string, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	u, _ := url.Parse(found.Authorize) // it was checked
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

// said is what the issuer says of a person, until when, and what it says that anew for; empty: nothing.
type said struct {
	who     principal.Principal
	until   time.Time
	renewal string
}

// exchange returns who has signed in.
func (p *provider) exchange(ctx context.Context, code, back, verifier, nonce string) (said, error) {
	now, given, err := p.ask(ctx, url.Values{"grant_type": {grantCode}, "code": {code}, "redirect_uri": {back}, "code_verifier": {verifier}})
	if err == nil && subtle.ConstantTimeCompare([]byte(given), []byte(nonce)) != 1 {
		err = errors.New("its ID token is of another sign-in: the nonce differs")
	}
	return now, err
}

// renew returns what the issuer says by now. errNotGood: it does not any more.
func (p *provider) renew(ctx context.Context, renewal string) (said, error) {
	now, _, err := p.ask(ctx, url.Values{"grant_type": {grantRefresh}, "refresh_token": {renewal}})
	now.renewal = cmp.Or(now.renewal, renewal)
	return now, err
}

// ask asks the token endpoint, and returns the nonce of its ID token as well.
func (p *provider) ask(ctx context.Context, form url.Values) (now said, nonce string, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return now, "", err
	}
	form.Set("client_id", p.ClientID)
	// With no word of methods, it is Basic.
	basic := len(found.Methods) == 0 || slices.Contains(found.Methods, methodBasic)
	if p.ClientSecret != "" && !basic {
		form.Set("client_secret", p.ClientSecret)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, found.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return now, "", err
	}
	if p.ClientSecret != "" && basic {
		request.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret))
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.client.Do(request)
	if err != nil { // it has the address, in which there is no secret
		return now, "", err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		IDToken string `json:"id_token"`
		Renewal string `json:"refresh_token"`
		Error   string `json:"error"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProvider))
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return now, "", fmt.Errorf("its token endpoint answers %d", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return now, "", fmt.Errorf("%w: its token endpoint answers %d %.60q", errNotGood, response.StatusCode, answer.Error)
	case err != nil:
		return now, "", fmt.Errorf("its token endpoint: %w", err)
	}
	if len(answer.Renewal) <= maxRenewal {
		now.renewal = answer.Renewal
	}
	now.who, nonce, now.until, err = p.Verify(ctx, answer.IDToken)
	switch {
	case err != nil:
		return now, "", fmt.Errorf("%w: its ID token: %w", errNotGood, err)
	case now.who.IsUser(): // who would be the operator
		return now, "", fmt.Errorf("%w: its ID token does not say who it is", errNotGood)
	}
	return now, nonce, nil
}
