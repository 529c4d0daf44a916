//go:build fetchtest

package netguard

import (
	"cmp"
	"context"
	"net"
	"os"
	"strings"
)

// Dial leads every host below .example to the address in CODE_SANDBOX_FETCHTEST, and its port 443 to that in
// CODE_SANDBOX_FETCHTEST_TLS if there is one, for tests of the whole program. It is only in programs that are
// built with the tag fetchtest.
func Dial(ports ...uint16) DialFunc {
	web := os.Getenv("CODE_SANDBOX_FETCHTEST")
	secure := cmp.Or(os.Getenv("CODE_SANDBOX_FETCHTEST_TLS"), web)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		switch {
		case err != nil || !strings.HasSuffix(host, ".example"):
			return Dialer(ports...).DialContext(ctx, network, address)
		case port == "443":
			return (&net.Dialer{}).DialContext(ctx, network, secure)
		}
		return (&net.Dialer{}).DialContext(ctx, network, web)
	}
}
