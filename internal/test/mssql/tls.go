package mssql

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// StartTLS starts a server that speaks TLS from the first byte on (Encrypt=strict), as localhost, and gives
// its certificate as PEM.
func StartTLS(handle func(Request) Reply) (*Server, []byte, error) {
	certificate, encoded, err := SelfSigned()
	if err != nil {
		return nil, nil, err
	}
	s := newServer(handle)
	s.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"tds/8.0"}, MinVersion: tls.VersionTLS12}
	return s, encoded, s.listen("127.0.0.1:0")
}

// SelfSigned makes a certificate for localhost, which is its own authority, and gives it as PEM too.
func SelfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, encoded, nil
}

// wrap puts TLS around a connection where the server has it.
func (s *Server) wrap(conn net.Conn) net.Conn {
	if s.tls == nil {
		return conn
	}
	return tls.Server(conn, s.tls)
}
