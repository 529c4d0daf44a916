package clientheader

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var server = Bounds{
	Lifetime: 24 * time.Hour, IdleTimeout: 30 * time.Minute, RunTimeout: time.Hour,
	DownloadTimeout: 2 * time.Minute, DownloadBytes: 500_000_000, InlineRows: 30, LinkLifetime: 24 * time.Hour,
}

// Every header that bounds something, by what it bounds.
var bounds = map[string]func(n int64) Bounds{
	"X-Session-TTL":           func(n int64) Bounds { return Bounds{Lifetime: time.Duration(n) * time.Second} },
	"X-Idle-Timeout":          func(n int64) Bounds { return Bounds{IdleTimeout: time.Duration(n) * time.Second} },
	"X-Exec-Timeout":          func(n int64) Bounds { return Bounds{RunTimeout: time.Duration(n) * time.Second} },
	"X-Download-Timeout":      func(n int64) Bounds { return Bounds{DownloadTimeout: time.Duration(n) * time.Second} },
	"X-Max-Download-Size":     func(n int64) Bounds { return Bounds{DownloadBytes: n} },
	"X-Sql-Max-Inline-Rows":   func(n int64) Bounds { return Bounds{InlineRows: n} },
	"X-Blob-SAS-Expiry-Hours": func(n int64) Bounds { return Bounds{LinkLifetime: time.Duration(n) * time.Hour} },
}

func TestTheLowerBoundCounts(t *testing.T) {
	for name, test := range map[string]struct {
		values []string
		want   int64  // zero: the server's counts
		note   string // a part of it; empty: there is none
	}{
		"below":                     {[]string{"7"}, 7, ""},
		"above":                     {[]string{"600000000"}, 0, "was lowered from 600000000 to"},
		"huge":                      {[]string{"99999999999999999999999999"}, 0, "was lowered from 99999999999999999999999999 to"},
		"that of a 64-bit number":   {[]string{"18446744073709551615"}, 0, "was lowered"},
		"zero":                      {[]string{"0"}, 0, `is "0" and not a whole number above 0`},
		"negative":                  {[]string{"-7"}, 0, `is "-7" and not a whole number above 0`},
		"hugely negative":           {[]string{"-99999999999999999999"}, 0, "not a whole number"},
		"text":                      {[]string{"7s"}, 0, `is "7s" and not`},
		"long text":                 {[]string{strings.Repeat("x", 10_000)}, 0, `xxx…" and not`},
		"a fraction":                {[]string{"7.5"}, 0, "not a whole number"},
		"a list":                    {[]string{"7, 8"}, 0, "not a whole number"},
		"empty":                     {[]string{""}, 0, ""},
		"twice the same":            {[]string{"7", "7"}, 7, ""},
		"two that disagree":         {[]string{"7", "8"}, 0, "came 2 times, with different values"},
		"two of which one is empty": {[]string{"7", ""}, 0, "came 2 times"},
	} {
		for header, want := range bounds {
			asked := Read(http.Header{http.CanonicalHeaderKey(header): test.values}, server, false)
			note := asked.Notes(AllUses...)
			if asked.Bounds() != want(test.want) || !strings.Contains(note, test.note) || (note == "") != (test.note == "") || len(note) > 300 {
				t.Errorf("%s, %s: %+v, %q", header, name, asked.Bounds(), note)
			}
			should.Hold(t, note == "" || strings.Contains(note, header), "%s is not named in %q", header, note)
		}
	}
}

func TestCredentialsNeedPermission(t *testing.T) {
	const dsn, password, key = "Server=db.example;Database=shop;User ID=me;Password={your_password_here}", "correct-horse", "AccountKey=abcdef"
	for name, test := range map[string]struct {
		headers map[string]string
		allowed bool
		given   bool // a database
		store   Store
		note    string
	}{
		"both":                 {map[string]string{"X-Db-Connection-String": dsn, "X-Db-Password": password}, true, true, Store{}, ""},
		"both, not allowed":    {map[string]string{"X-Db-Connection-String": dsn, "X-Db-Password": password}, false, false, Store{}, "ignored X-Db-Connection-String, X-Db-Password: this server takes no credentials in headers"},
		"no password":          {map[string]string{"X-Db-Connection-String": dsn}, true, false, Store{}, "a database needs both"},
		"no database":          {map[string]string{"X-Db-Password": password}, true, false, Store{}, "a database needs both"},
		"a store":              {map[string]string{"X-Blob-Connection-String": key}, true, false, Store{Connection: key}, ""},
		"a store's container":  {map[string]string{"X-Blob-Connection-String": key, "X-Blob-Container-Name": "mine"}, true, false, Store{key, "mine"}, ""},
		"a container alone":    {map[string]string{"X-Blob-Container-Name": "mine"}, true, false, Store{}, "X-Blob-Container-Name was ignored: it names a container of what X-Blob-Connection-String opens"},
		"the longest store":    {map[string]string{"X-Blob-Connection-String": strings.Repeat("x", 4096)}, true, false, Store{Connection: strings.Repeat("x", 4096)}, ""},
		"a longer store":       {map[string]string{"X-Blob-Connection-String": strings.Repeat("x", 4097)}, true, false, Store{}, "ignored: a credential may have 4096 bytes, and this one has 4097"},
		"a store, not allowed": {map[string]string{"X-Blob-Connection-String": key, "X-Blob-Container-Name": "mine"}, false, false, Store{}, "ignored X-Blob-Connection-String, X-Blob-Container-Name: this server takes no credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			h := make(http.Header)
			for header, value := range test.headers {
				h.Set(header, value)
			}
			asked := Read(h, server, test.allowed)
			note := asked.Notes(AllUses...)
			if (asked.Database != nil) != test.given || !strings.Contains(note, test.note) || (note == "") != (test.note == "") {
				t.Errorf("%+v, %q", asked.Database, note)
			}
			got := asked.OwnStore()
			should.Hold(t, (got != nil || test.store == (Store{})) && (got == nil || *got == test.store), "the store is %+v", got)
			should.Hold(t, !test.given || asked.Database.DSN == dsn && asked.Database.Password == password && asked.Database.Foreign,
				"%+v", asked.Database)
			for _, secret := range []string{dsn, password, key} {
				should.Hold(t, !strings.Contains(note, secret), "a credential is in %q", note)
			}
		})
	}
}

// A server's bound may be no whole number of a header's units.
func TestBoundsAreToldInTheHeadersUnits(t *testing.T) {
	for lifetime, want := range map[time.Duration]string{90 * time.Minute: "from 2 to 1.5,", 20 * time.Minute: "from 2 to 0.33,"} {
		asked := Read(http.Header{"X-Blob-Sas-Expiry-Hours": {"2"}}, Bounds{LinkLifetime: lifetime}, false)
		note := asked.Notes(Stores)
		should.Hold(t, asked.Bounds().LinkLifetime == 0 && strings.Contains(note, want), "%v: %q", lifetime, note)
	}
}

func TestNotesAreSaidWhereTheyMatter(t *testing.T) {
	h := http.Header{"X-Exec-Timeout": {"no"}, "X-Sql-Max-Inline-Rows": {"no"}}
	asked := Read(h, server, false)
	runs := asked.Notes(Runs, Sessions)
	should.Hold(t, strings.Contains(runs, "X-Exec-Timeout") && !strings.Contains(runs, "Rows"), "%q", runs)
	should.Equal(t, asked.Notes(), "")
}

func TestRequestsWithoutHeadersAskForNothing(t *testing.T) {
	asked := Read(http.Header{"Accept": {"*/*"}}, server, true)
	should.Hold(t, asked == nil && asked.OwnStore() == nil && asked.Bounds() == (Bounds{}) && asked.Notes(AllUses...) == "", "%+v", asked)
	should.Equal(t, Of(With(t.Context(), asked)), nil)
}
