package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// sent is a request that the client got.
type sent struct {
	ID     string
	Method string
	Params map[string]any
}

func TestRequestsToTheClient(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelledByClient)
	settled := make(chan struct{})
	close(settled)
	for name, test := range map[string]struct {
		ctx    context.Context
		until  <-chan struct{}
		answer string // with ID in the place of the request's id
		want   string
		err    error
	}{
		"a result":             {t.Context(), nil, `{"jsonrpc":"2.0","id":"ID","result":{"action":"accept"}}`, `{"action":"accept"}`, nil},
		"an error":             {t.Context(), nil, `{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"no"}}`, "", errNoClientAnswer},
		"answered elsewhere":   {t.Context(), settled, "", "", errNoClientAnswer},
		"cancelled":            {ended, nil, "", "", ErrCancelledByClient},
		"one of another":       {t.Context(), settled, `{"jsonrpc":"2.0","id":"another","result":{}}`, "", errNoClientAnswer},
		"an id of no text":     {t.Context(), settled, `{"jsonrpc":"2.0","id":1,"result":{}}`, "", errNoClientAnswer},
		"one that is too long": {t.Context(), settled, `{"jsonrpc":"2.0","id":"ID","result":"` + strings.Repeat("x", maxClientAnswer) + `"}`, "", errNoClientAnswer},
	} {
		var r Requests
		var got []sent
		result, err := r.Do(test.ctx, test.until, func(line []byte) {
			var s sent
			should.OK(t, json.Unmarshal(line, &s), "%s", name)
			got = append(got, s)
			if s.Method == "elicitation/create" {
				r.Answered([]byte(strings.ReplaceAll(test.answer, "ID", s.ID)))
				r.Answered([]byte(strings.ReplaceAll(test.answer, "ID", s.ID))) // again
			}
		}, "elicitation/create", map[string]any{"message": "?"})
		if string(result) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %s, %v", name, result, err)
		}
		if got[0].Params["message"] != "?" || got[0].ID == "" {
			t.Errorf("%s: sent %+v", name, got)
		}
		isCancelled := len(got) == 2 && got[1].Method == "notifications/cancelled" && got[1].Params["requestId"] == got[0].ID && got[1].ID == ""
		should.Equal(t, isCancelled, test.answer == "" || test.until != nil, "%s: sent %+v", name, got)
		should.Equal(t, len(r.waiting), 0, "%s: one waits still", name)
	}
}
