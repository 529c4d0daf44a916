// The keys of an issuer: read, found by their id, fetched again within a rate.

package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Times of keys.
const (
	// freshTime is how long keys are used before they are fetched again, and endTime how long at all: a key that an issuer has taken away
	// is gone by then even where the issuer cannot be reached.
	freshTime = 15 * time.Minute
	endTime   = 2 * time.Hour
	// For the sake of a key that is not among them keys are fetched at once, mostAtOnce times, and then once in againTime: who shows
	// tokens of no key does not make the issuer busy.
	againTime  = 30 * time.Second
	mostAtOnce = 5
	// Of an issuer that cannot be reached the keys are asked for after firstWait, and then after twice the time before, up to lastWait.
	firstWait = time.Second
	lastWait  = time.Minute
)

// Bounds of keys. Smaller ones of RSA can be broken, and larger ones take long.
const (
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192
)

// algorithms are those that a token may be signed with: by a key that only its issuer has.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// key is a public key of an issuer.
type key struct {
	id         string
	public     crypto.PublicKey
	algorithms []string // that it is for
}

// jwk is a key as RFC 7517 writes it.
type jwk struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// parseKeys reads a set of keys. Those that are for something else, or of a kind that is not known, are left out.
func parseKeys(text []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the issuer's keys are no JSON: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the issuer has %d keys, and at most %d are read", len(set.Keys), maxKeys)
	}
	var keys []key
	for _, raw := range set.Keys {
		var k jwk
		if json.Unmarshal(raw, &k) != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		public, fits, ok := k.public()
		if k.Algorithm != "" {
			fits = slices.DeleteFunc(fits, func(a string) bool { return a != k.Algorithm })
		}
		if ok && len(fits) > 0 {
			keys = append(keys, key{k.ID, public, fits})
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the issuer has no key that tokens can be checked with")
	}
	return keys, nil
}

// public returns the key itself, and the algorithms that it can be for.
func (k jwk) public() (public crypto.PublicKey, fits []string, ok bool) {
	switch k.Type {
	case "RSA":
		n, e := number(k.N), number(k.E)
		if n == nil || e == nil || n.BitLen() < minRSABits || n.BitLen() > maxRSABits || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
			return nil, nil, false
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, slices.Clone(algorithms[:6]), true
	case "EC":
		curves := map[string]struct {
			curve     elliptic.Curve
			algorithm string
		}{"P-256": {elliptic.P256(), "ES256"}, "P-384": {elliptic.P384(), "ES384"}, "P-521": {elliptic.P521(), "ES512"}}
		of, known := curves[k.Curve]
		x, y := number(k.X), number(k.Y)
		if !known || x == nil || y == nil {
			return nil, nil, false
		}
		size := (of.curve.Params().BitSize + 7) / 8
		if x.BitLen() > 8*size || y.BitLen() > 8*size {
			return nil, nil, false
		}
		point := append([]byte{4}, make([]byte, 2*size)...)
		x.FillBytes(point[1 : 1+size])
		y.FillBytes(point[1+size:])
		parsed, err := ecdsa.ParseUncompressedPublicKey(of.curve, point)
		return parsed, []string{of.algorithm}, err == nil
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		return ed25519.PublicKey(x), []string{"EdDSA"}, err == nil && k.Curve == "Ed25519" && len(x) == ed25519.PublicKeySize
	}
	return nil, nil, false
}

// number reads a number; nil: it is none, or none above 0.
func number(text string) *big.Int {
	content, err := base64.RawURLEncoding.DecodeString(text)
	if n := new(big.Int).SetBytes(content); err == nil && n.Sign() > 0 {
		return n
	}
	return nil
}

// errNoKey reports that a token names a key that its issuer does not have.
var errNoKey = errors.New("the token is signed with a key that its issuer does not have")

// keySet is the keys of an issuer as they were fetched last. Its methods may be called by any number of goroutines.
type keySet struct {
	fetch func(context.Context) ([]key, error)
	now   func() time.Time
	log   *slog.Logger

	mu         sync.Mutex
	keys       []key
	fetched    time.Time
	generation int // rises when the keys change
	// Fetching: next is when it may be done again, behind paid by what may be done at once, and busy is closed when what goes on is done.
	next     time.Time
	paid     time.Time
	busy     chan struct{}
	failures int
	err      error
}

// current returns the keys and their generation; nil: there are none that may be used. Old ones are fetched anew meanwhile.
func (s *keySet) current() ([]key, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.currentLocked()
}

func (s *keySet) currentLocked() ([]key, int) {
	now := s.now()
	if now.Sub(s.fetched) > freshTime && !s.fetched.IsZero() {
		s.begin(now)
	}
	if s.keys == nil || now.Sub(s.fetched) > endTime {
		return nil, s.generation
	}
	return s.keys, s.generation
}

// find returns the key that a token names, which is fetched where it is not among those that are known. id "": the only one that there is
// for the algorithm.
func (s *keySet) find(ctx context.Context, id, algorithm string) (crypto.PublicKey, int, error) {
	for asked := false; ; asked = true {
		s.mu.Lock()
		keys, generation := s.currentLocked()
		if public := choose(keys, id, algorithm); public != nil {
			s.mu.Unlock()
			return public, generation, nil
		}
		if !asked {
			s.begin(s.now())
		}
		busy, err := s.busy, s.err
		s.mu.Unlock()
		if asked || busy == nil {
			if keys != nil {
				return nil, 0, errNoKey
			}
			return nil, 0, fmt.Errorf("the issuer's keys are not known: %w", err)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func choose(keys []key, id, algorithm string) crypto.PublicKey {
	var fitting []key
	for _, k := range keys {
		if (id == "" || k.id == id) && slices.Contains(k.algorithms, algorithm) {
			fitting = append(fitting, k)
		}
	}
	if len(fitting) != 1 {
		return nil
	}
	return fitting[0].public
}

// begin fetches the keys, unless that goes on or was done a short while ago.
func (s *keySet) begin(now time.Time) {
	if s.busy != nil || now.Before(s.next) {
		return
	}
	busy := make(chan struct{})
	s.busy = busy
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
		defer cancel()
		keys, err := s.fetch(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take(keys, err)
		s.busy = nil
		close(busy)
	}()
}

// take takes what was fetched.
func (s *keySet) take(keys []key, err error) {
	now := s.now()
	if s.err = err; err != nil {
		wait := lastWait
		if s.failures < 6 {
			wait = firstWait << s.failures
		}
		s.failures++
		s.next = now.Add(wait)
		s.log.Warn("the keys of --oidc-issuer cannot be had", "error", err, "again_in", wait.String())
		return
	}
	if !reflect.DeepEqual(keys, s.keys) {
		s.keys = keys
		s.generation++
	}
	if s.paid.Before(now) {
		s.paid = now
	}
	s.paid = s.paid.Add(againTime)
	s.fetched, s.failures, s.next = now, 0, s.paid.Add(-mostAtOnce*againTime)
}
