package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// The official Go SDK's client finds the server by its challenge, registers, has a person allow it, calls, and refreshes its token.
func TestTheGoSDKsClient(t *testing.T) {
	t.Parallel()
	s := serve(t)
	server := mcp.NewServer(&mcp.Implementation{Name: "sandbox", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called"}}}, nil, nil
	})
	serveMCP := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	s.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.Authenticate(r); err != nil {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="%s"`, s.url, Scope))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveMCP.ServeHTTP(w, r)
	})
	s.mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":"%[1]s/mcp","authorization_servers":["%[1]s"],"scopes_supported":["sandbox"]}`, s.url)
	})
	asked := 0
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go", RedirectURIs: []string{"http://127.0.0.1:1/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			asked++
			u, err := url.Parse(args.URL)
			if err != nil || u.Query().Get("resource") != s.url+"/mcp" {
				return nil, errors.Join(err, fmt.Errorf("it asks for %s", args.URL))
			}
			back := s.allowed(u.Query())
			return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state"), Iss: back.Get("iss")}, nil
		},
	})
	must.OK(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	must.OK(t, err)
	defer session.Close()
	source, err := handler.TokenSource(t.Context())
	must.OK(t, err)
	token, err := source.Token()
	if err != nil || token.RefreshToken == "" || time.Until(token.Expiry) > time.Hour {
		t.Fatalf("%+v %v", token, err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"})
	if err != nil || len(result.Content) != 1 || asked != 1 {
		t.Errorf("%+v %v, and the person was asked %d times", result, err, asked)
	}
}
