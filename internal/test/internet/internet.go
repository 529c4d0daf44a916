// Package internet is an internet for tests of the whole program: a network namespace of its own, where names below
// field.test lead to a public address whose hosts answer, by HTTP and by TLS of an own authority.
//
// New makes one and Program what starts a program in it. That is the test's own binary, whose TestMain calls Serve first.
package internet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

const (
	address  = "11.22.33.44" // a public one
	inner    = "10.1.2.3"
	variable = "CODE_SANDBOX_TEST_INTERNET" // the folder of one that is to be served
)

// names are the hosts; inner has a private address.
var names = []string{"api", "query", "body", "open", "other", "any", "port", "gone", "a.files"}

// enter becomes the program behind it, in a namespace whose addresses are the test's own and whose names are in $0/hosts. The
// address is no interface's: this machine's own are never connected to.
const enter = `ip link set lo up && ip route add local ` + address + ` dev lo && mount --bind "$0/hosts" /etc/hosts && exec "$@"`

// Internet is one that programs can be started in.
type Internet struct {
	dir string
	CA  string // the certificate of its authority, in PEM
}

// New makes an internet, or skips the test where this machine does not let it.
func New(t *testing.T) *Internet {
	t.Helper()
	n := &Internet{dir: t.TempDir()}
	var lines strings.Builder
	fmt.Fprintf(&lines, "127.0.0.1 localhost\n%s inner.field.test\n", inner)
	for _, name := range names {
		fmt.Fprintf(&lines, "%s %s.field.test\n", address, name)
	}
	must.OK(t, errors.Join(os.WriteFile(n.path("hosts"), []byte(lines.String()), 0o600), n.makeRepository(), Certify(n.dir, "*.field.test", "*.files.field.test")))
	authority := must.Get(os.ReadFile(n.path("ca.pem")))(t)
	n.CA = string(authority)
	if out, err := exec.Command("unshare", n.entering("true")...).CombinedOutput(); err != nil {
		t.Skipf("no network namespace of the test's own can be made here (unshare, ip and mount of Linux, and the right to use them): %v: %s", err, out)
	}
	return n
}

func (n *Internet) path(name string) string { return filepath.Join(n.dir, name) }

// entering are the arguments of unshare for a program.
func (n *Internet) entering(program ...string) []string {
	args := []string{"--net", "--mount"}
	if os.Getuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	return append(append(args, "sh", "-c", enter, n.dir), program...)
}

// Program returns the path of what starts the program in the internet, with the arguments that it is given itself, and the
// variables by which the program trusts its authority.
func (n *Internet) Program(t *testing.T, program string) (path string, env []string) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	words := append([]string{"unshare"}, n.entering(self, program)...)
	for i, word := range words {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	path = n.path("program")
	script := "#!/bin/sh\nexport " + variable + "='" + n.dir + "'\nexec " + strings.Join(words, " ") + " \"$@\"\n"
	must.OK(t, os.WriteFile(path, []byte(script), 0o700))
	return path, []string{"SSL_CERT_FILE=" + n.path("ca.pem")}
}

// Serve serves the hosts and runs the program in the arguments, where this process was started to; done is false elsewhere.
func Serve() (code int, done bool) {
	n := &Internet{dir: os.Getenv(variable)}
	if n.dir == "" {
		return 0, false
	}
	_ = os.Unsetenv(variable)
	err := n.serve()
	if err == nil {
		program := exec.Command(os.Args[1], os.Args[2:]...)
		program.Stdin, program.Stdout, program.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = program.Run()
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), true
	case err != nil:
		fmt.Fprintln(os.Stderr, "internet:", err)
		return 1, true
	}
	return 0, true
}

func (n *Internet) serve() error {
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	handler := hosts(git, n.dir)
	for _, port := range []string{"80", "8080", "443", "8443"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		if strings.HasSuffix(port, "443") {
			go func() { _ = server.ServeTLS(listener, n.path("host.pem"), n.path("host.key")) }()
		} else {
			go func() { _ = server.Serve(listener) }()
		}
	}
	return nil
}

// makeRepository makes a Git repository of two commits and 41 files.
func (n *Internet) makeRepository() error {
	script := `git init -q -b main "$0" && cd "$0" && for i in $(seq 40); do echo $i >file-$i; done && echo '# cloned' >README.md && git add . && git commit -q -m one && echo 0 >file-1 && git commit -q -a -m two`
	cmd := exec.Command("sh", "-c", script, n.path("repo.git"))
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=test", "GIT_"+who+"_EMAIL=test@field.test")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a repository: %w: %s", err, out)
	}
	return nil
}

// Certify makes an authority and a certificate for hosts, in PEM: ca.pem, host.pem and host.key of the folder.
func Certify(dir string, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	host := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: hosts,
	}
	own, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if authority, err = x509.ParseCertificate(own); err != nil { // with the identifier of its key
		return err
	}
	theirs, err := x509.CreateCertificate(rand.Reader, host, authority, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(name, kind string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
	}
	return errors.Join(write("ca.pem", "CERTIFICATE", own), write("host.pem", "CERTIFICATE", theirs), write("host.key", "PRIVATE KEY", secret))
}
