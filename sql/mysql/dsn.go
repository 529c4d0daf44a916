package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

const (
	defaultPort        = "3306"
	defaultDialTimeout = 15 * time.Second
)

const dsnHint = "Write mysql://user:password@host:3306/database?ssl-mode=VERIFY_IDENTITY (with %XX for special characters in the password), " +
	"or user:password@tcp(host:3306)/database, or user@unix(/path/of/socket)/database."

// settings are the settings in a connection string.
type settings struct {
	config   *mysql.Config
	timeZone string // of the session; empty: UTC
	limits   sql.Limits
}

// synonyms maps the clients' names of a setting to ours. An empty one has no effect: its setting is fixed, or of no use for reading.
var synonyms = map[string]string{
	"ssl-mode": "mode", "sslmode": "mode", "ssl_mode": "mode", "tls": "mode",
	"ssl-ca": "ca", "ssl_ca": "ca", "sslrootcert": "ca", "ssl-cert": "cert", "ssl_cert": "cert", "sslcert": "cert", "ssl-key": "key", "ssl_key": "key", "sslkey": "key",
	"timeout": "timeout", "connect-timeout": "timeout", "connect_timeout": "timeout",
	"socket": "socket", "unix_socket": "socket", "time_zone": "zone", "timezone": "zone", "allowcleartextpasswords": "cleartext",

	"charset": "", "collation": "", "loc": "", "parsetime": "", "multistatements": "", "interpolateparams": "", "clientfoundrows": "",
	"columnswithalias": "", "allowallfiles": "", "allownativepasswords": "", "allowoldpasswords": "", "allowfallbacktoplaintext": "",
	"allowpublickeyretrieval": "", "checkconnliveness": "", "maxallowedpacket": "", "readtimeout": "", "writetimeout": "", "rejectreadonly": "",
	"timetruncate": "", "connectionattributes": "", "compress": "", "local_infile": "", "autocommit": "",
}

// modes maps the clients' names of encryption modes.
var modes = map[string]string{
	"disabled": "disabled", "disable": "disabled", "false": "disabled", "0": "disabled",
	"preferred": "preferred", "prefer": "preferred",
	"required": "required", "require": "required", "skip-verify": "required",
	"verify_ca": "verify_ca", "verify-ca": "verify_ca",
	"verify_identity": "verify_identity", "verify-identity": "verify_identity", "verify-full": "verify_identity", "true": "verify_identity", "1": "verify_identity",
}

// native is the driver's own form of a connection string.
var native = regexp.MustCompile(`(?s)^(?:(.*)@)?(tcp|unix)\(([^()]+)\)/([^/?]*)(?:\?(.*))?$`)

// parseDSN reads a connection string. Its errors tell nothing of the string's values: in a string that is written wrong,
// any part can be the password.
func parseDSN(dsn string) (*settings, error) {
	s := &settings{config: mysql.NewConfig()}
	c := s.config
	dsn = strings.TrimSpace(dsn)
	var query string
	if parts := native.FindStringSubmatch(dsn); parts != nil && !strings.Contains(dsn[:min(len(dsn), 12)], "://") {
		c.User, c.Passwd, _ = strings.Cut(parts[1], ":")
		c.Net, c.Addr, query = parts[2], parts[3], parts[5]
		name, err := url.PathUnescape(parts[4])
		if err != nil {
			return nil, badDSN("the database's name has a % that escapes nothing")
		}
		c.DBName = name
	} else {
		u, err := url.Parse(dsn)
		if err != nil || u.Host == "" && u.Query().Get("socket") == "" {
			return nil, badDSN("it is no URL that names a host, and not of the other form")
		}
		c.User, c.Net, c.Addr, c.DBName, query = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.RawQuery
		c.Passwd, _ = u.User.Password()
	}
	given, err := known(query)
	if err != nil {
		return nil, badDSN(err.Error())
	}
	if socket := given["socket"]; socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	if _, _, err := net.SplitHostPort(c.Addr); c.Net == "tcp" && err != nil {
		c.Addr = net.JoinHostPort(strings.Trim(c.Addr, "[]"), defaultPort)
	}
	if err := s.apply(given); err != nil {
		return nil, badDSN(err.Error())
	}
	return s, nil
}

// known keeps the settings that there are, by one name each.
func known(query string) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("what is behind the ? is not name=value&…")
	}
	given := make(map[string]string)
	for key, all := range values {
		name, ok := synonyms[strings.ToLower(key)]
		if !ok {
			return nil, errors.New("there is a setting behind the ? that is not known here; ssl-mode, ssl-ca, ssl-cert, ssl-key, timeout, socket and time_zone are")
		}
		if _, twice := given[name]; name != "" && (twice || len(all) > 1) {
			return nil, fmt.Errorf("it has the setting %s twice", key)
		}
		given[name] = all[0]
	}
	return given, nil
}

var zones = regexp.MustCompile(`^[A-Za-z0-9_+:/-]{1,64}$`)

// apply sets the settings that a connection string may set, and the fixed ones.
func (s *settings) apply(given map[string]string) error {
	c := s.config
	c.Timeout = defaultDialTimeout
	if text := given["timeout"]; text != "" {
		timeout, err := time.ParseDuration(text)
		if err != nil {
			timeout, err = time.ParseDuration(text + "s")
		}
		if err != nil || timeout <= 0 || timeout > time.Minute {
			return errors.New("timeout is no time between 0 and 60 seconds")
		}
		c.Timeout = timeout
	}
	if s.timeZone = given["zone"]; s.timeZone != "" && !zones.MatchString(s.timeZone) {
		return errors.New("time_zone is no zone such as +02:00 or Europe/Vienna")
	}
	if err := s.encrypt(given); err != nil {
		return err
	}
	verified := c.TLS != nil && strings.HasPrefix(s.mode(given), "verify")
	if given["cleartext"] == "true" && !verified && c.Net != "unix" {
		return errors.New("allowCleartextPasswords needs ssl-mode=VERIFY_IDENTITY or VERIFY_CA: the password would be anybody's")
	}
	c.AllowCleartextPasswords = given["cleartext"] == "true"
	c.Logger = silent
	c.ConnectionAttributes = "program_name:code-sandbox-mcp"
	return nil
}

// mode returns the encryption mode. The default is to encrypt if the server can, as MySQL's own clients do; with an authority's file its
// certificates are required.
func (s *settings) mode(given map[string]string) string {
	switch {
	case s.config.Net == "unix":
		return "disabled"
	case given["mode"] != "":
		return modes[strings.ToLower(given["mode"])]
	case given["ca"] != "":
		return "verify_ca"
	}
	return "preferred"
}

func (s *settings) encrypt(given map[string]string) error {
	mode := s.mode(given)
	if mode == "" {
		return errors.New("ssl-mode is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA and VERIFY_IDENTITY")
	}
	if mode == "disabled" {
		return nil
	}
	host, _, _ := net.SplitHostPort(s.config.Addr)
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if file := given["ca"]; file != "" {
		pem, err := os.ReadFile(file)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return errors.New("the file of ssl-ca has no certificate that can be read")
		}
	}
	if given["cert"]+given["key"] != "" {
		own, err := tls.LoadX509KeyPair(given["cert"], given["key"])
		if err != nil {
			return errors.New("ssl-cert and ssl-key are no certificate and its key")
		}
		config.Certificates = []tls.Certificate{own}
	}
	if mode != "verify_identity" {
		config.InsecureSkipVerify = true
	}
	if mode == "verify_ca" {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, c := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	s.config.TLS, s.config.AllowFallbackToPlaintext = config, mode == "preferred"
	return nil
}

func badDSN(what string) error {
	return fault.New(fault.SQLFailed, dsnHint, "The connection string cannot be used: %s.", what)
}
