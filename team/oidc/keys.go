// An issuer's keys: read, found by their id, fetched again within a rate.

package oidc

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Times of keys.
const (
	// freshTime is the age from which keys are fetched again, and endTime their greatest age: by then a key that an issuer withdrew is gone,
	// even if the issuer cannot be reached.
	freshTime = 15 * time.Minute
	endTime   = 2 * time.Hour
	// For an unknown key the keys are fetched at once, mostAtOnce times, and then once in againTime: tokens of no key cannot keep the issuer
	// busy.
	againTime  = 30 * time.Second
	mostAtOnce = 5
)

// minRSABits and maxRSABits bound keys. Smaller ones can be broken, and larger ones take long.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// algorithms are those allowed for a token's signature: by a key that only its issuer holds.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

func algorithmNames() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// errNoKey reports that a token names a key unknown to its issuer.
var errNoKey = errors.New("the token is not signed with a key that its issuer has")

// keySet holds an issuer's keys as last fetched. It is an oidc.KeySet. The library's own asks the issuer for every token of an unknown
// key, and never forgets one.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	rate   *rate.Limiter
	asking singleflight.Group

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time
}

func newKeySet(issuer string, now func() time.Time, log *slog.Logger) *keySet {
	return &keySet{issuer: issuer, client: newClient(), now: now, log: log, rate: rate.NewLimiter(rate.Every(againTime), 1+mostAtOnce)}
}

// VerifySignature implements oidc.KeySet.
func (s *keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	// Other kinds are for something else, such as logout+jwt.
	kind, has := signed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType]
	if kind := strings.TrimPrefix(strings.ToLower(fmt.Sprint(kind)), "application/"); has && kind != "jwt" && kind != "at+jwt" {
		return nil, fmt.Errorf("a token of the kind %q lets nobody in", text.Shorten(kind, 80))
	}
	if content := verify(signed, s.current()); content != nil {
		return content, nil
	}
	_, err, _ = s.asking.Do("", s.refresh)
	keys := s.current()
	if content := verify(signed, keys); content != nil {
		return content, nil
	}
	if keys == nil {
		return nil, fmt.Errorf("the issuer's keys are not known: %w", err)
	}
	return nil, errNoKey
}

// verify returns a token's content, if one of the keys signed it; nil: none did.
func verify(signed *jose.JSONWebSignature, keys []jose.JSONWebKey) []byte {
	header := signed.Signatures[0].Protected
	for _, k := range keys {
		if header.KeyID != "" && header.KeyID != k.KeyID || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if content, err := signed.Verify(k.Key); err == nil {
			return content
		}
	}
	return nil
}

// current returns the keys; nil: there are no usable ones. It refreshes old ones in the background.
func (s *keySet) current() []jose.JSONWebKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.now().Sub(s.fetched)
	if age > endTime {
		return nil
	}
	if age > freshTime {
		s.asking.DoChan("", s.refresh)
	}
	return s.keys
}

// refresh fetches the keys, within the rate.
func (s *keySet) refresh() (any, error) {
	if !s.rate.AllowN(s.now(), 1) {
		return nil, errors.New("the issuer was asked a short while ago")
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	keys, err := s.fetch(ctx)
	if err != nil {
		s.log.Warn("the keys of --oidc-issuer cannot be had", "error", err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.fetched = keys, s.now()
	return nil, nil
}

// fetch asks the issuer for the address of its keys, and then for the keys.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.issuer)
	if err != nil {
		return nil, shortened(err)
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&at); err != nil {
		return nil, err
	}
	if u, err := url.Parse(at.Keys); err != nil || u.Host == "" || !IsSafe(u) {
		return nil, fmt.Errorf("the issuer has its keys at %q, which is not an https address", text.Shorten(at.Keys, 200))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.Keys, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at.Keys, text.Shorten(answer.Status, 80))
	}
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Keys, err)
	}
	return parseKeys(content)
}

// parseKeys reads a key set. It leaves out keys for another use and unknown kinds.
func parseKeys(content []byte) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, fmt.Errorf("the issuer's keys are no JSON: %w", err)
	}
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || !k.IsPublic() || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if public, is := k.Key.(*rsa.PublicKey); is && (public.N.BitLen() < minRSABits || public.N.BitLen() > maxRSABits) {
			continue
		}
		keys = append(keys, k)
	}
	if keys == nil {
		return nil, errors.New("the issuer has no key that tokens can be checked with")
	}
	return keys, nil
}
