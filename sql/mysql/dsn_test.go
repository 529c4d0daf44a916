//go:build unix

package mysql

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/sqltest"
)

func TestBothFormsOfConnectionStringsAreRead(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql://reader:p%40ss%2Fw@db.example:3307/shop":                                        "reader p@ss/w tcp db.example:3307 shop preferred 15s",
		"mariadb://reader@db.example/":                                                          "reader  tcp db.example:3306  preferred 15s",
		"mysql://reader:x@[::1]/shop?ssl-mode=DISABLED&charset=utf8":                            "reader x tcp [::1]:3306 shop disabled 15s",
		"mysql://reader:x@db.example/shop?ssl-mode=verify_identity&connect_timeout=5":           "reader x tcp db.example:3306 shop verified 5s",
		"mysql://reader:x@/shop?socket=/run/mysqld/mysqld.sock":                                 "reader x unix /run/mysqld/mysqld.sock shop disabled 15s",
		"reader:a:b@c/d?e@tcp(db.example:3307)/shop%2F2?tls=true&parseTime=true&loc=UTC":        "reader a:b@c/d?e tcp db.example:3307 shop/2 verified 15s",
		"reader:x@tcp(db.example)/?tls=skip-verify&timeout=500ms":                               "reader x tcp db.example:3306  required 500ms",
		"reader@unix(/run/s)/shop":                                                              "reader  unix /run/s shop disabled 15s",
		"tcp(db.example:1)/shop?multiStatements=true&allowAllFiles=true&interpolateParams=true": "  tcp db.example:1 shop preferred 15s",
	} {
		s, err := parseDSN(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		c, mode := s.config, "disabled"
		switch {
		case c.TLS == nil:
		case c.AllowFallbackToPlaintext:
			mode = "preferred"
		case c.TLS.InsecureSkipVerify:
			mode = "required"
		default:
			mode = "verified"
		}
		got := fmt.Sprintf("%s %s %s %s %s %s %s", c.User, c.Passwd, c.Net, c.Addr, c.DBName, mode, c.Timeout)
		should.Hold(t, got == want, "%s:\n\t%s, want\n\t%s", dsn, got, want)
		if c.MultiStatements || c.AllowAllFiles || c.InterpolateParams || c.AllowOldPasswords || c.AllowCleartextPasswords || c.ParseTime {
			t.Errorf("%s sets what none may: %+v", dsn, c)
		}
		db := must.Get(Open(dsn, limits))(t)
		should.Hold(t, !strings.Contains(fmt.Sprintf("%v %+v %#v", db, db, db), "ss/w"), "the password is printed")
	}
}

func TestConnectionStringsThatCannotBeUsedAreRefused(t *testing.T) {
	for dsn, says := range map[string]string{
		"mysql://":                                          "names a host",
		"mysql://u:secret%zz@h/d":                           "no URL",
		"mysql://u:secret@h/d?ssl-mode=SECRET":              "none of DISABLED",
		"mysql://u:secret@h/d?secret=1":                     "not known here",
		"mysql://u:secret@h/d?timeout=2h":                   "timeout",
		"mysql://u:secret@h/d?tls=true&ssl-mode=secret":     "twice",
		"mysql://u:secret@h/d?time_zone=secret'":            "time_zone",
		"mysql://u:secret@h/d?ssl-ca=/secret":               "ssl-ca",
		"mysql://u:secret@h/d?ssl-cert=/secret":             "ssl-cert",
		"mysql://u:secret@h/d?allowCleartextPasswords=true": "VERIFY_IDENTITY",
	} {
		_, err := Open(dsn, limits)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(strings.ToLower(fault.From(err).Message), "secret") {
			t.Errorf("%s: %v, want %q", dsn, err, says)
		}
	}
	should.Hold(t, Password("mysql://u:p%40ss@h/d") == "p@ss" && Password("mysql://u:%zz@h") == "",
		"the password is not found, or made up")
}

func TestAConnectionIsEncryptedAsItIsAsked(t *testing.T) {
	base := "mysql://remote:" + url.QueryEscape("a pass/word?") + "@" + strings.Replace(server.Address(), "127.0.0.1", "localhost", 1) + "/shop?"
	base = strings.Replace(base, "+", "%20", 2)
	byAddress := strings.Replace(base, "localhost", "127.0.0.1", 1)
	for dsn, want := range map[string]string{
		base + "ssl-mode=VERIFY_IDENTITY&ssl-ca=" + server.Certificate(): "encrypted",
		byAddress + "ssl-ca=" + server.Certificate():                     "encrypted",
		base + "ssl-mode=REQUIRED":                                       "encrypted",
		base:                                                             "encrypted",
		base + "ssl-mode=DISABLED":                                       "plain",
		base + "ssl-mode=VERIFY_IDENTITY":                                "certificate is not trusted",
		base + "ssl-mode=VERIFY_CA":                                      "certificate is not trusted",
		byAddress + "ssl-mode=VERIFY_IDENTITY&ssl-ca=" + server.Certificate(): "certificate is not trusted",
	} {
		d := must.Get(Open(dsn, limits))(t)
		_, rows, err := sqltest.Read(t.Context(), d, "SELECT IF(VARIABLE_VALUE = '', 'plain', 'encrypted') FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'")
		should.Contain(t, fmt.Sprint(rows, err), want, "%s", dsn)
		d.Close()
	}
}

// hostile answers every connection with the same packets, the first of which is a server's greeting, one after each that comes.
func hostile(t *testing.T, packets ...string) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				for i, p := range packets {
					if i > 0 {
						if n, err := conn.Read(make([]byte, 1<<16)); n == 0 || err != nil {
							return
						}
					}
					sequence := byte(2)
					if i == 0 {
						sequence = 0
					} else if i > 1 {
						sequence = 1
					}
					if _, err := conn.Write(append([]byte{byte(len(p)), byte(len(p) >> 8), byte(len(p) >> 16), sequence}, p...)); err != nil {
						return
					}
				}
				rest := make([]byte, 1<<16)
				for {
					n, err := conn.Read(rest)
					should.Hold(t, !strings.Contains(string(rest[:n]), "root:"), "the server got a file of this machine")
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestAHostileServerGetsNothingAndBreaksNothing(t *testing.T) {
	greeting := "\x0a8.0.0\x00\x01\x00\x00\x00abcdefgh\x00\xff\xf7\x2d\x02\x00\xff\x81\x15" + strings.Repeat("\x00", 10) + "ijklmnopqrst\x00mysql_native_password\x00"
	ok := "\x00\x00\x00\x02\x00\x00\x00"
	for name, packets := range map[string][]string{
		"asks for a file":                {greeting, ok, "\xfb/etc/passwd"},
		"asks for the password":          {greeting, "\xfemysql_clear_password\x00"},
		"ends amid a packet":             {greeting, ok, "\x02\x03def"},
		"claims millions of columns":     {greeting, ok, "\xfc\xff\xff", "\x00"},
		"sends a head that is too short": {greeting, ok, "\x01", "\x03"},
		"says nothing but its greeting":  {"\x0a"},
		"is no MySQL":                    {"HTTP/1.1 400 Bad Request\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := must.Get(Open("mysql://u:secret@"+hostile(t, packets...)+"/d?ssl-mode=DISABLED&timeout=1s", limits))(t)
			defer d.Close()
			_, rows, err := sqltest.Read(t.Context(), d, "SELECT 1")
			if f := fault.From(err); err == nil || f.Code != fault.SQLFailed || f.Hint == "" || strings.Contains(f.Message, "runtime") {
				t.Errorf("%v %v", rows, err)
			}
		})
	}
}
