package sqlserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// appName is the name that an administrator sees in the server's list of sessions.
const appName = "code-sandbox-mcp"

const defaultDialTimeout = 15 * time.Second

const dsnHint = "Write sqlserver://user:password@host:1433?database=name (with %XX for special characters in the password), " +
	"or Server=host,1433;Database=name;User ID=user;Password=…, or the ODBC string of the Azure portal."

// synonyms maps the names of a setting in the three forms to ours. Others have no effect: some settings would write logs, change the
// password or load keys.
var synonyms = map[string]string{
	"server": "server", "data source": "server", "address": "server", "addr": "server", "network address": "server",
	"port":     "port",
	"database": "database", "initial catalog": "database",
	"user id": "user id", "user": "user id", "uid": "user id",
	"password": "password", "pwd": "password",
	"encrypt":                "encrypt",
	"trustservercertificate": "trustservercertificate", "trust server certificate": "trustservercertificate",
	"hostnameincertificate": "hostnameincertificate", "host name in certificate": "hostnameincertificate",
	"certificate":       "certificate",
	"servercertificate": "servercertificate", "server certificate": "servercertificate",
	"tlsmin":             "tlsmin",
	"connection timeout": "dial timeout", "connect timeout": "dial timeout", "timeout": "dial timeout",
	"logintimeout": "dial timeout", "login timeout": "dial timeout", "dial timeout": "dial timeout",
	"multisubnetfailover": "multisubnetfailover", "multi subnet failover": "multisubnetfailover",
	"failoverpartner": "failoverpartner", "failover partner": "failoverpartner", "failover_partner": "failoverpartner",
	"failoverport": "failoverport",
	"packet size":  "packet size", "packetsize": "packet size",
	"protocol":       "protocol",
	"authentication": "fedauth", "fedauth": "fedauth",
	"applicationclientid": "applicationclientid", "application client id": "applicationclientid",
	"clientcertpath": "clientcertpath",
	"resource id":    "resource id",
	"tokenfilepath":  "tokenfilepath",
}

// entraLogins are the ways to log in by Microsoft Entra ID that need nobody at a screen, by their names in small
// letters without spaces: the clients of Microsoft write them with and without, the driver in one way only.
var entraLogins = func() map[string]string {
	byName := make(map[string]string)
	for _, name := range []string{
		azuread.ActiveDirectoryDefault, azuread.ActiveDirectoryIntegrated, azuread.ActiveDirectoryPassword,
		azuread.ActiveDirectoryManagedIdentity, azuread.ActiveDirectoryMSI, azuread.ActiveDirectoryServicePrincipal,
		azuread.ActiveDirectoryApplication, azuread.ActiveDirectoryServicePrincipalAccessToken, azuread.ActiveDirectoryAzCli,
		azuread.ActiveDirectoryAzureDeveloperCli, azuread.ActiveDirectoryEnvironment, azuread.ActiveDirectoryWorkloadIdentity,
	} {
		byName[strings.ToLower(name)] = name
	}
	return byName
}()

// plainLogins are the names of a login by user and password.
var plainLogins = []string{"", "sqlpassword", "notspecified"}

// loginOnly are the values of Encrypt that encrypt the login alone.
var loginOnly = []string{"no", "false", "optional", "0", "f"}

// placeholder matches the Azure portal's text in place of the password.
var placeholder = regexp.MustCompile(`^\{?your_password(_here)?\}?$`)

// parseDSN reads a connection string of any of the three forms. Its errors tell nothing of the string's values:
// in a string that is written wrong, any part can be the password.
func parseDSN(dsn, password string) (msdsn.Config, error) {
	settings, err := split(strings.TrimSpace(dsn))
	if err != nil {
		return msdsn.Config{}, badDSN(err.Error())
	}
	if settings["server"] == "" {
		return msdsn.Config{}, badDSN("it names no server")
	}
	if p := settings["password"]; p == "" || placeholder.MatchString(p) {
		settings["password"] = password
	}
	// By default the driver would accept any certificate; Microsoft's own clients encrypt.
	if settings["encrypt"] == "" {
		settings["encrypt"] = "true"
	}
	// Nor do those check a certificate where the login alone is encrypted, unless they are told which one it is.
	if slices.Contains(loginOnly, strings.ToLower(settings["encrypt"])) && settings["certificate"]+settings["servercertificate"] == "" {
		settings["trustservercertificate"] = "true"
	}
	login := strings.ToLower(strings.ReplaceAll(settings["fedauth"], " ", ""))
	delete(settings, "fedauth")
	config, err := msdsn.Parse(join(settings))
	if err != nil {
		return msdsn.Config{}, badDSN("a number, a yes or no, or a certificate in it cannot be read")
	}
	config = harden(config)
	if !slices.Contains(plainLogins, login) {
		err = entra(config, login)
	}
	return config, err
}

// ownLogins are the ways to log in that need nothing of this machine.
var ownLogins = append(slices.Clone(plainLogins), "activedirectorypassword", "activedirectoryserviceprincipal")

// CheckForeign refuses a connection string that would make the server read a file of this machine, or log in by an identity of it: a
// client's must not.
func CheckForeign(dsn string) error {
	settings, err := split(strings.TrimSpace(dsn))
	if err != nil {
		return badDSN(err.Error())
	}
	for _, name := range []string{"certificate", "servercertificate", "clientcertpath", "tokenfilepath"} {
		if settings[name] != "" {
			return badDSN("it names a file (" + name + "), and comes from a client")
		}
	}
	if !slices.Contains(ownLogins, strings.ToLower(strings.ReplaceAll(settings["fedauth"], " ", ""))) {
		return badDSN("its Authentication takes a login of the server's machine, and it comes from a client")
	}
	if settings["user id"] == "" { // Windows' own driver takes the process's then
		return badDSN("it names no user, and comes from a client")
	}
	return nil
}

// entra makes a connection log in by a token. Whoever gets one can be the login elsewhere too, and the server names the token's purpose: so
// it must prove its identity first.
func entra(c msdsn.Config, login string) error {
	name, ok := entraLogins[login]
	if !ok {
		return fault.New(fault.SQLFailed, "Take ActiveDirectoryDefault, which uses what `az login` or the environment has, "+
			"ActiveDirectoryManagedIdentity, or ActiveDirectoryServicePrincipal with client-id@tenant-id as user and its secret as password.",
			"The connection string's Authentication is none that works without a person at a screen.")
	}
	if c.TrustServerCertificate || c.Encryption != msdsn.EncryptionRequired && c.Encryption != msdsn.EncryptionStrict {
		return fault.New(fault.SQLFailed, "Leave out TrustServerCertificate and set Encrypt=yes; certificate can name the file of an authority of your own.",
			"With %s the connection must be encrypted and the server's certificate checked.", name)
	}
	c.Parameters["fedauth"] = name
	if _, err := azuread.NewConnector(join(c.Parameters)); err != nil {
		return badDSN(name + ": " + err.Error())
	}
	return nil
}

func badDSN(what string) error {
	return fault.New(fault.SQLFailed, dsnHint, "The connection string cannot be used: %s.", what)
}

// byToken reports whether the login is one of Entra's.
func byToken(c msdsn.Config) bool { return c.Parameters["fedauth"] != "" }

// harden sets the settings that no connection string can change.
func harden(c msdsn.Config) msdsn.Config {
	c.ReadOnlyIntent = true
	c.AppName = appName
	c.Parameters["app name"] = appName
	if c.Database != "" {
		c.Parameters["applicationintent"] = "ReadOnly"
	}
	c.LogFlags = 0
	c.ConnTimeout = 0 // it would end a silent statement after that time; statements are limited separately
	if c.DialTimeout <= 0 || c.DialTimeout > time.Minute {
		c.DialTimeout = defaultDialTimeout
	}
	return c
}

// split divides a connection string into its settings, by their names in the driver.
func split(dsn string) (map[string]string, error) {
	if scheme, _, ok := strings.Cut(dsn, "://"); ok && !strings.ContainsAny(scheme, "=;") {
		return splitURL(dsn)
	}
	rest, odbc := strings.CutPrefix(dsn, "odbc:")
	pairs, err := splitPairs(rest, odbc || driverKey.MatchString(rest))
	if err != nil {
		return nil, err
	}
	return known(pairs)
}

// driverKey matches a setting of ODBC's strings alone.
var driverKey = regexp.MustCompile(`(?i)(^|;)\s*(driver|dsn)\s*=`)

func splitURL(dsn string) (map[string]string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("it is no URL")
	}
	if !slices.Contains([]string{"sqlserver", "azuresql", "mssql"}, u.Scheme) {
		return nil, errors.New("its scheme is not sqlserver")
	}
	pairs := [][2]string{{"server", u.Hostname()}, {"port", u.Port()}, {"user", u.User.Username()}}
	if instance := strings.TrimPrefix(u.Path, "/"); instance != "" {
		pairs[0][1] += `\` + instance
	}
	if password, ok := u.User.Password(); ok {
		pairs = append(pairs, [2]string{"password", password})
	}
	for key, values := range u.Query() {
		pairs = append(pairs, [2]string{key, values[0]})
	}
	return known(pairs)
}

// known keeps the settings that there are, by one name each.
func known(pairs [][2]string) (map[string]string, error) {
	settings := make(map[string]string)
	for _, pair := range pairs {
		name, ok := synonyms[strings.ToLower(strings.TrimSpace(pair[0]))]
		if !ok || pair[1] == "" {
			continue
		}
		if _, twice := settings[name]; twice {
			return nil, fmt.Errorf("it has the setting %q twice", name)
		}
		settings[name] = pair[1]
	}
	return settings, nil
}

// splitPairs reads key=value;key=value. A value with a semicolon is in quotes, or in ODBC's braces.
func splitPairs(s string, odbc bool) ([][2]string, error) {
	quotes := `"'`
	if odbc {
		quotes = `{`
	}
	var pairs [][2]string
	for s = strings.TrimLeft(s, "; \t\r\n"); s != ""; s = strings.TrimLeft(s, "; \t\r\n") {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil, errors.New("a part of it is not key=value")
		}
		rest = strings.TrimLeft(rest, " \t")
		var value string
		if rest != "" && strings.IndexByte(quotes, rest[0]) >= 0 {
			var err error
			if value, rest, err = cutQuoted(rest); err != nil {
				return nil, err
			}
		} else {
			value, rest, _ = strings.Cut(rest, ";")
			value = strings.TrimSpace(value)
		}
		pairs = append(pairs, [2]string{key, value})
		s = rest
	}
	return pairs, nil
}

// cutQuoted reads a value that ends with the closing quote, which is doubled where it stands for itself.
func cutQuoted(s string) (value, rest string, err error) {
	end := s[0]
	if end == '{' {
		end = '}'
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == end {
			b.WriteByte(end)
			i++
			continue
		}
		rest = strings.TrimLeft(s[i+1:], " \t\r\n")
		if rest != "" && rest[0] != ';' {
			return "", "", errors.New("a value goes on after its closing quote")
		}
		return b.String(), rest, nil
	}
	return "", "", errors.New("a value in quotes or braces has no end")
}

// join writes settings in the one form that takes every value, for the driver.
func join(settings map[string]string) string {
	var parts []string
	for name, value := range settings {
		parts = append(parts, fmt.Sprintf(`%s="%s"`, name, strings.ReplaceAll(value, `"`, `""`)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ";")
}

// address is where a connection goes, for messages.
func address(c msdsn.Config) string {
	host := c.Host
	if c.Instance != "" {
		host += `\` + c.Instance
	}
	if c.Port != 0 {
		return net.JoinHostPort(host, fmt.Sprint(c.Port))
	}
	return host
}
