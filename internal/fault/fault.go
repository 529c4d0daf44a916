// Package fault holds the coded errors that a model sees.
//
// A tool that could not do its work answers with one of these: the event, with the offending value, and the next step. All other internal
// errors stay in the log; From turns them into a fault without paths, secrets or error chains.
package fault

import (
	"errors"
	"fmt"
	"maps"
)

// Code names a kind of failure. The set is part of the contract with clients.
type Code string

// The codes.
const (
	InvalidSessionID   Code = "invalid_session_id"
	InvalidArgument    Code = "invalid_argument"
	InvalidFilename    Code = "invalid_filename"
	InvalidPath        Code = "invalid_path"
	InvalidContent     Code = "invalid_content"
	CodeTooLarge       Code = "code_too_large"
	UploadTooLarge     Code = "upload_too_large"
	ArtifactTooLarge   Code = "artifact_too_large"
	FileExists         Code = "file_exists"
	NotFound           Code = "not_found"
	SessionNotFound    Code = "session_not_found"
	RunNotFound        Code = "run_not_found"
	SessionBusy        Code = "session_busy"
	MaxSessions        Code = "max_sessions"
	QuotaExceeded      Code = "quota_exceeded"
	PackageDenied      Code = "package_denied"
	InstallFailed      Code = "install_failed"
	DownloadFailed     Code = "download_failed"
	SQLRejected        Code = "sql_rejected"
	SQLFailed          Code = "sql_failed"
	ConnectionNotFound Code = "connection_not_found"
	ToolRefused        Code = "tool_refused"
	ToolFailed         Code = "tool_failed"
	ToolTimeout        Code = "tool_timeout"
	ToolServerFailed   Code = "tool_server_failed"
	EngineUnavailable  Code = "engine_unavailable"
	EngineError        Code = "engine_error"
	ImageMissing       Code = "image_missing"
	AuditUnavailable   Code = "audit_unavailable"
	ExecutionFailed    Code = "execution_failed"
	ServerDraining     Code = "server_draining"
)

// The codes of HTTP servers alone, for requests that they do not let in.
const (
	Unauthorized Code = "unauthorized"
	Forbidden    Code = "forbidden"
	ServerBusy   Code = "server_busy"
)

// Error is a failure in words for a model. The zero value is of no use; make one with New.
type Error struct {
	Code    Code
	Message string         // the event, with the offending value
	Hint    string         // the next step
	Fields  map[string]any // figures for programs, such as limit_bytes; may be nil
	cause   error          // for the log only
}

// Program is the name of the running program, for hints. Its main function sets it, before anything reads it.
var Program = "code-sandbox-mcp"

// RetryAfter is the name of the field with the seconds after which the same call may do better.
const RetryAfter = "retry_after_seconds"

// New makes a fault. The message is formatted as by fmt.Sprintf.
func New(code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

// With adds a figure for programs, and returns the same fault.
func (e *Error) With(name string, value any) *Error {
	if e.Fields == nil {
		e.Fields = make(map[string]any)
	}
	e.Fields[name] = value
	return e
}

// Because keeps the fault's cause, for the log, and returns the same fault.
func (e *Error) Because(err error) *Error {
	e.cause = err
	return e
}

// JSON returns the fault as the fields of a JSON object: its code, message, hint and Fields.
func (e *Error) JSON() map[string]any {
	fields := map[string]any{"code": e.Code, "message": e.Message, "hint": e.Hint}
	maps.Copy(fields, e.Fields)
	return fields
}

// Error returns the code and the message, never the cause.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// From finds the fault in err's chain. An error without one becomes execution_failed, with words that tell nothing of the error itself:
// that belongs in the log.
func From(err error) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	return New(ExecutionFailed, "Try once more; if it happens again, run `"+Program+" doctor`.",
		"The server could not do this, for a reason that its log tells.").Because(err)
}
