package libpod

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"
)

// Container is an entry of a list.
type Container struct {
	ID      string `json:"Id"`
	Names   []string
	Labels  map[string]string
	State   string // "running", among others
	Created time.Time
}

type identified struct {
	ID string `json:"Id"`
}

// CreateContainer makes a container and returns its id.
func CreateContainer(ctx context.Context, spec *specgen.SpecGenerator) (id string, err error) {
	r, err := carrying(spec)
	if err != nil {
		return "", err
	}
	made, err := ask[identified](ctx, http.MethodPost, "/containers/create", r)
	return made.ID, err
}

// StartContainer starts an existing container. A running one is no error.
func StartContainer(ctx context.Context, name string) error {
	return to(name).do(ctx, http.MethodPost, "/containers/%s/start")
}

// WaitContainer waits for a container's end and returns its exit status.
func WaitContainer(ctx context.Context, name string) (status int, err error) {
	return ask[int](ctx, http.MethodPost, "/containers/%s/wait", to(name))
}

// ListContainers lists the containers that pass the filters, running or not; with external, those of builds too.
func ListContainers(ctx context.Context, of map[string][]string, external bool) ([]Container, error) {
	query, err := filters(of)
	if err != nil {
		return nil, err
	}
	query.Set("all", "true")
	if external {
		query.Set("external", "true")
	}
	return ask[[]Container](ctx, http.MethodGet, "/containers/json", request{query: query})
}

// RemoveContainer kills a container without grace and removes it. With volumes, its nameless volumes go with it. A missing one is
// no error, from Podman 4.4 on.
func RemoveContainer(ctx context.Context, name string, volumes bool) error {
	query := url.Values{"force": {"true"}, "ignore": {"true"}, "timeout": {"0"}}
	if volumes {
		query.Set("v", "true")
	}
	return request{names: []string{name}, query: query}.do(ctx, http.MethodDelete, "/containers/%s")
}

// UploadArchive unpacks a tar archive in a folder of a container.
func UploadArchive(ctx context.Context, name, folder string, archive io.Reader) error {
	r := request{names: []string{name}, query: url.Values{"path": {folder}}, body: archive}
	return r.do(ctx, http.MethodPut, "/containers/%s/archive")
}

// DownloadArchive writes a path of a container as a tar archive.
func DownloadArchive(ctx context.Context, name, path string, archive io.Writer) error {
	r := request{names: []string{name}, query: url.Values{"path": {path}}}
	return r.download(ctx, "/containers/%s/archive", archive)
}

// Exec is a program to start in a container.
type Exec struct {
	AttachStdin, AttachStdout, AttachStderr bool

	Cmd        []string
	WorkingDir string
}

// CreateExec registers a program and returns the id for its start.
func CreateExec(ctx context.Context, container string, program Exec) (id string, err error) {
	r, err := carrying(program, container)
	if err != nil {
		return "", err
	}
	made, err := ask[identified](ctx, http.MethodPost, "/containers/%s/exec", r)
	return made.ID, err
}

// ExecRunning reports whether a program runs.
func ExecRunning(ctx context.Context, id string) (bool, error) {
	program, err := ask[struct{ Running bool }](ctx, http.MethodGet, "/exec/%s/json", to(id))
	return program.Running, err
}

// RemoveExec removes the engine's record of a program; a running one is sent a SIGTERM first.
func RemoveExec(ctx context.Context, id string) error {
	r, err := carrying(struct{ Force bool }{true}, id)
	if err != nil {
		return err
	}
	return r.do(ctx, http.MethodPost, "/exec/%s/remove")
}
