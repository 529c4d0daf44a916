package stdio

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// connect runs a Serve under the official Go SDK's client, over real pipes.
func connect(t *testing.T, version string, options *sdk.ClientOptions) (*fixture, *sdk.ClientSession) {
	t.Helper()
	serverIn, clientOut := pipe(t)
	clientIn, serverOut := pipe(t)
	f := newFixture()
	finished := make(chan error, 1)
	go func() {
		finished <- Serve(context.Background(), f.server, serverIn, serverOut, Options{})
		_ = serverOut.Close()
	}()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	session := must.Get(client.Connect(t.Context(), &sdk.IOTransport{Reader: clientIn, Writer: clientOut},
		&sdk.ClientSessionOptions{ProtocolVersion: version}))(t)
	t.Cleanup(func() {
		f.releaseAll()
		_ = session.Close()
		should.OK(t, <-finished, "Serve")
	})
	return f, session
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must.OK(t, err)
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

func TestGoSDKClient(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			var mu sync.Mutex
			var progress []float64
			received := make(chan struct{}, 100)
			f, session := connect(t, version, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					progress = append(progress, r.Params.Progress)
					received <- struct{}{}
				},
			})
			sdkList(t, f, session)
			sdkProgress(t, session, received)
			for i, p := range progress {
				should.Equal(t, p, float64(i+1), "progress %d", i)
			}
			sdkCancel(t, f, session)
			sdkUpload(t, session)
		})
	}
}

func sdkList(t *testing.T, f *fixture, session *sdk.ClientSession) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	must.Hold(t, err == nil && len(list.Tools) == len(f.server.ListTools()), "%v, %v", list, err)
}

func sdkProgress(t *testing.T, session *sdk.ClientSession, received <-chan struct{}) {
	t.Helper()
	params := &sdk.CallToolParams{Name: "count", Arguments: map[string]any{"n": 50}}
	params.SetProgressToken("token")
	must.OK(t, should.ErrOf(session.CallTool(t.Context(), params)))
	for range 50 {
		<-received
	}
}

func sdkCancel(t *testing.T, f *fixture, session *sdk.ClientSession) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-f.started
		cancel()
	}()
	_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "block", Arguments: map[string]any{"name": "a"}})
	should.Be(t, err, context.Canceled)
	should.Be(t, <-f.ended, rpc.ErrCancelledByClient, "cause")
}

func sdkUpload(t *testing.T, session *sdk.ClientSession) {
	t.Helper()
	arguments := map[string]any{"content": strings.Repeat("x", 2<<20)}
	result := must.Get(session.CallTool(t.Context(), &sdk.CallToolParams{Name: "size", Arguments: arguments}))(t)
	text, ok := result.Content[0].(*sdk.TextContent)
	should.Hold(t, ok && text.Text == "2097152", "got %+v", result.Content)
}
