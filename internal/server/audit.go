package server

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// AuditSettings say whether and how an audit log is kept.
type AuditSettings struct {
	File     string
	Code     string
	Required bool
	MaxSize  int64
	Keep     int
}

func (s *AuditSettings) check() error {
	var found problems
	found.wrong(s.Code != "hash" && s.Code != "full", "--audit-code %q is neither hash nor full", s.Code)
	found.wrong(s.Required && s.File == "", "--audit-required has no effect without --audit-log; name a file there")
	return errors.Join(found...)
}

// OpenAudit opens the audit log; nil: there is none. The error is of UsageError.
func (s *Settings) OpenAudit(mask *secrets.Masker, log *slog.Logger) (*audit.Log, error) {
	if s.Audit.File == "" {
		return nil, nil
	}
	l, err := audit.Open(audit.Options{
		Path: s.Audit.File, FullCode: s.Audit.Code == "full", Required: s.Audit.Required, MaxBytes: s.Audit.MaxSize, Keep: s.Audit.Keep,
		Mask: mask, Logger: log,
	})
	if err != nil {
		return nil, UsageError{Err: fmt.Errorf("--audit-log: %w; name a file in a folder that exists and that this user may write to", err)}
	}
	return l, nil
}
