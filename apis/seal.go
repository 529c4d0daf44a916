package apis

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
)

// Seal makes tokens that hold a text, such as their maker's credential, encrypted for this process and bound to a thing: a token opens that
// thing alone, as long as the credential is good, and nothing is stored.
type Seal struct{ aead cipher.AEAD }

// NewSeal returns a Seal with its own key.
func NewSeal() *Seal {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // which never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &Seal{aead}
}

// Token returns a token of letters, digits, - and _ for a thing.
func (s *Seal) Token(thing, text string) string {
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, []byte(text), []byte(thing))) //nolint:gosec // it makes its own nonces
}

// Open returns the text in a token for a thing; empty: it is none.
func (s *Seal) Open(thing, token string) string {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(sealed) == 0 {
		return ""
	}
	text, err := s.aead.Open(nil, nil, sealed, []byte(thing))
	if err != nil {
		return ""
	}
	return string(text)
}
