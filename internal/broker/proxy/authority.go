package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// mostLeaves limits the certificates that are kept.
const mostLeaves = 256

// Certificate times. An authority is as old as its session may become; a clock may be somewhat wrong.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 24 * time.Hour
	clockSkew     = time.Hour
)

// Authority is a session's own certificate authority, which code in the session trusts. By its name constraints it
// can vouch for the hosts alone for which TLS ends here. Its methods may be called by any goroutine.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// newAuthority makes an authority for hosts, as Proxy.endedHosts names them: names, addresses and networks.
func newAuthority(hosts []string) (*Authority, error) {
	if len(hosts) == 0 {
		return nil, errors.New("a certificate authority without hosts would be one for all of them")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "code-sandbox-mcp, for one session"},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true,
	}
	for _, host := range slices.Sorted(slices.Values(hosts)) {
		if network, ok := networkOf(host); ok {
			template.PermittedIPRanges = append(template.PermittedIPRanges, network)
		} else {
			template.PermittedDNSDomains = append(template.PermittedDNSDomains, host)
		}
	}
	// An empty list would not constrain anything.
	if template.PermittedIPRanges == nil {
		template.ExcludedIPRanges = []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	}
	if template.PermittedDNSDomains == nil {
		template.PermittedDNSDomains = []string{"invalid"} // which no host uses
	}
	certificate, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &Authority{certificate: certificate, key: key}, nil
}

// covers reports whether the authority can vouch for all of the hosts, and for now.
func (a *Authority) covers(hosts []string) bool {
	return time.Now().Before(a.certificate.NotAfter) && !slices.ContainsFunc(hosts, func(host string) bool {
		if network, ok := networkOf(host); ok {
			return !slices.ContainsFunc(a.certificate.PermittedIPRanges, func(permitted *net.IPNet) bool { return permitted.String() == network.String() })
		}
		return !slices.Contains(a.certificate.PermittedDNSDomains, host)
	})
}

// networkOf returns the network that a host is named by, or that of its address alone; ok is false for a name.
func networkOf(host string) (network *net.IPNet, ok bool) {
	prefix, err := netip.ParsePrefix(host)
	if address, isAddress := netip.ParseAddr(host); isAddress == nil {
		prefix, err = address.Prefix(address.BitLen())
	}
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}, err == nil
}

// certificatePEM returns the certificate that code must trust. It is public.
func (a *Authority) certificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// MarshalText returns the authority with its private key, for the server's own state alone.
func (a *Authority) MarshalText() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, err
	}
	return append(a.certificatePEM(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), nil
}

// UnmarshalText reads MarshalText's output.
func (a *Authority) UnmarshalText(text []byte) error {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return fmt.Errorf("a session's certificate authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return errors.New("a session's certificate authority: it is none of this program's")
	}
	a.certificate, a.key, a.leaves = pair.Leaf, key, nil
	return nil
}

// permits reports whether the authority can vouch for a host.
func (a *Authority) permits(host string) bool {
	leaf, err := a.leaf(host)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots})
	return err == nil
}

// leaf returns a host's certificate.
func (a *Authority) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if leaf := a.leaves[host]; leaf != nil && time.Until(leaf.Leaf.NotAfter) > leafLife/2 {
		return leaf, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "code-sandbox-mcp"}, // a name of a host may be too long for this field
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if address := net.ParseIP(host); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{host}
	}
	certificate, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	leaf := &tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}
	if a.leaves == nil || len(a.leaves) >= mostLeaves {
		a.leaves = make(map[string]*tls.Certificate)
	}
	a.leaves[host] = leaf
	return leaf, nil
}

func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}
