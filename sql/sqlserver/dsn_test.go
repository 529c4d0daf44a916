package sqlserver

import (
	"strings"
	"testing"
	"time"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestAllFormsOfConnectionStringsAreRead(t *testing.T) {
	type want struct {
		host, instance, database, user, password string
		port                                     uint64
		encryption                               msdsn.Encryption
		trust                                    bool
	}
	azure := want{"x.database.windows.net", "", "shop", "reader", "from outside", 1433, msdsn.EncryptionRequired, false}
	for name, c := range map[string]struct {
		dsn  string
		want want
	}{
		"a URL": {"sqlserver://reader:p%40ss%2Fw@db.example:1444?database=shop",
			want{"db.example", "", "shop", "reader", "p@ss/w", 1444, msdsn.EncryptionRequired, false}},
		"a URL with an instance": {"sqlserver://reader:x@db.example/SQLEXPRESS?database=shop&encrypt=disable",
			want{"db.example", "SQLEXPRESS", "shop", "reader", "x", 0, msdsn.EncryptionDisabled, false}},
		"a URL with IPv6": {"mssql://reader@[::1]:1433?database=shop&TrustServerCertificate=true",
			want{"::1", "", "shop", "reader", "from outside", 1433, msdsn.EncryptionRequired, true}},
		"pairs": {`Server=db.example,1444;Database=shop;User ID=reader;Password="a;b""c"`,
			want{"db.example", "", "shop", "reader", `a;b"c`, 1444, msdsn.EncryptionRequired, false}},
		"pairs in single quotes": {`Data Source=tcp:db.example;Initial Catalog=shop;uid=reader;pwd='a;b''c'`,
			want{"db.example", "", "shop", "reader", `a;b'c`, 0, msdsn.EncryptionRequired, false}},
		"braces in pairs are letters": {`server=db.example;user id=reader;password={x};database=shop`,
			want{"db.example", "", "shop", "reader", `{x}`, 0, msdsn.EncryptionRequired, false}},
		"Azure's ADO.NET": {"Server=tcp:x.database.windows.net,1433;Initial Catalog=shop;Persist Security Info=False;User ID=reader;Password={your_password};" +
			"MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;Connection Timeout=30;", azure},
		"Azure's ODBC": {"Driver={ODBC Driver 18 for SQL Server};Server=tcp:x.database.windows.net,1433;Database=shop;Uid=reader;Pwd={your_password_here};" +
			"Encrypt=yes;TrustServerCertificate=no;Connection Timeout=30;", azure},
		"ODBC without a password": {"Driver={ODBC Driver 18 for SQL Server};Server=tcp:x.database.windows.net,1433;Database=shop;Uid=reader;Encrypt=yes", azure},
		"ODBC with braces": {"odbc:server=db.example;database=shop;uid=reader;pwd={a;b}}c'\"}; encrypt=no",
			want{"db.example", "", "shop", "reader", `a;b}c'"`, 0, msdsn.EncryptionOff, true}},
		"the login alone encrypted": {"Server=db.example;Database=shop;Uid=reader;Encrypt=Optional;TrustServerCertificate=False",
			want{"db.example", "", "shop", "reader", "from outside", 0, msdsn.EncryptionOff, true}},
		"no encryption in a URL": {"azuresql://reader@db.example?database=shop&encrypt=False",
			want{"db.example", "", "shop", "reader", "from outside", 0, msdsn.EncryptionOff, true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(parseDSN(c.dsn, "from outside"))(t)
			g := want{got.Host, got.Instance, got.Database, got.User, got.Password, got.Port, got.Encryption, got.TrustServerCertificate}
			should.Equal(t, g, c.want, "read as")
			if !got.ReadOnlyIntent || got.AppName != appName || got.LogFlags != 0 || got.ConnTimeout != 0 || got.ColumnEncryption || got.ChangePassword != "" {
				t.Errorf("the settings are %+v", got)
			}
		})
	}
}

func TestTheTimeToConnectIsBounded(t *testing.T) {
	for timeout, want := range map[string]time.Duration{"": defaultDialTimeout, "0": defaultDialTimeout, "30": 30 * time.Second, "86400": defaultDialTimeout} {
		got, err := parseDSN("server=h;connect timeout="+timeout, "")
		should.Hold(t, err == nil && got.DialTimeout == want, "%q: %v (%v), want %v", timeout, got.DialTimeout, err, want)
	}
}

func FuzzDSN(f *testing.F) {
	f.Add("sqlserver://u:p@h:1433?database=d", "x")
	f.Add("Driver={ODBC};Server=tcp:x,1433;Pwd={a}}b}", "x")
	f.Add(`server=h;password="a;b""c"`, "x")
	f.Fuzz(func(t *testing.T, dsn, password string) {
		config, err := parseDSN(dsn, password)
		if err != nil {
			should.Hold(t, len(dsn) <= 30 || !strings.Contains(err.Error(), dsn), "%q is in %v", dsn, err)
			return
		}
		should.Hold(t, config.ReadOnlyIntent && config.LogFlags == 0, "%q: %+v", dsn, config)
	})
}

func TestAClientsConnectionStringTakesNothingOfTheServersMachine(t *testing.T) {
	const login = "server=db.example;user id=reader;password=x;"
	must.OK(t, CheckForeign(login))
	for _, dsn := range []string{
		"server=db.example;password=x", "server=db.example;uid=;password=x", login + "certificate=/etc/passwd", login + "tokenfilepath=/x",
		login + "fedauth=ActiveDirectoryDefault", login + "Authentication=Active Directory Managed Identity",
	} {
		should.Hold(t, CheckForeign(dsn) != nil, "it takes %s", dsn)
	}
}
