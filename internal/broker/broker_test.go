package broker_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// What has taken a connection over goes by the request's context.
func TestARequestThatTookItsConnectionEndsWithTheSession(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	b := broker.New(broker.Options{Proxy: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _, err := http.NewResponseController(w).Hijack()
		should.Hold(t, err == nil, "%v", err)
		close(begun)
		<-r.Context().Done()
		close(ended)
	})})
	defer b.Close()
	server, client := net.Pipe()
	ctx, end := context.WithCancel(t.Context())
	go b.Serve(ctx, "a", "", server)
	fmt.Fprint(client, "CONNECT x.example:443 HTTP/1.1\r\nHost: x.example\r\n\r\n")
	<-begun
	end()
	<-ended
}

func TestAllConnectionsOfASessionHaveOneBudget(t *testing.T) {
	seen := make(chan *caller.Budget, 1)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- caller.Of(r.Context()).Memory })
	b := broker.New(broker.Options{SQL: handler, Tools: handler, Proxy: handler})
	defer b.Close()
	ask := func(session, target string) *caller.Budget {
		t.Helper()
		server, client := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.Serve(ctx, session, "", server)
		go fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
		must.OK(t, should.ErrOf(bufio.NewReader(client).ReadString('\n')))
		return <-seen
	}
	first := ask("a", "/tools/demo")
	for _, target := range []string{"/sql", "http://example.com/"} {
		got := ask("a", target)
		should.Hold(t, got == first && got != nil, "%s has a budget of its own", target)
	}
	should.Hold(t, ask("b", "/sql") != first, "two sessions share one")
	b.Forget("a")
	should.Hold(t, ask("a", "/sql") != first, "it is not forgotten")
}
