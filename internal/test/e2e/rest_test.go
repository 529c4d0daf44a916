//go:build unix

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
)

// curl asks a server for something below its address, as a person would, and returns the body and the status.
func (s *httpServer) curl(path string, args ...string) (body []byte, status string) {
	s.t.Helper()
	all := append([]string{"-sS", "-m", "300", "-w", "\n%{http_code}", "-H", "Authorization: Bearer " + s.token}, args...)
	out, err := exec.CommandContext(s.t.Context(), "curl", append(all, strings.TrimSuffix(s.url, "/mcp")+path)...).Output()
	if err != nil {
		s.t.Fatalf("curl %s: %v", path, err)
	}
	i := strings.LastIndex(string(out), "\n")
	return out[:i], string(out[i+1:])
}

// ask is curl for what has to be done, and is answered with an object.
func (s *httpServer) ask(into any, path string, args ...string) {
	s.t.Helper()
	body, status := s.curl(path, args...)
	if !strings.HasPrefix(status, "2") {
		s.t.Fatalf("%s: %s %s", path, status, body)
	}
	decode(s.t, body, into)
}

func post(value any) []string {
	text, _ := json.Marshal(value)
	return []string{"-H", "Content-Type: application/json", "-d", string(text)}
}
