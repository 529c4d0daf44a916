package rpc

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestProgressOutsideOfACall(t *testing.T) {
	NotifyProgress(context.Background(), 1, 2, "nobody listens")
}

func TestProgressText(t *testing.T) {
	long := strings.Repeat("é", 3000)
	var lines []string
	ctx := WithCall(t.Context(), &Call{Token: []byte("1"), Notify: func(line []byte) { lines = append(lines, string(line)) }})
	NotifyProgress(ctx, 1, math.Inf(1), "<&>\xff\n")
	NotifyProgress(ctx, math.NaN(), 1, "dropped")
	NotifyProgress(ctx, 2, math.NaN(), long)
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"<&>�\n"}}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2,"message":"` + long[:maxProgressText] + `"}}` + "\n",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}
