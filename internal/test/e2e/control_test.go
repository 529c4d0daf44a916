//go:build unix

package e2e

import (
	"encoding/json"
)

// progress is the params of a progress notification.
type progress struct {
	ProgressToken string
	Progress      float64
	Total         float64
	Message       string
}

// progressOf gives the notifications with a token, in the order of their coming.
func progressOf(messages []message, token string) (list []progress) {
	for _, m := range messages {
		if m.Method != "notifications/progress" {
			continue
		}
		var p progress
		if json.Unmarshal(m.Params, &p) == nil && p.ProgressToken == token {
			list = append(list, p)
		}
	}
	return list
}
