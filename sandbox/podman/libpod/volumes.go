package libpod

import (
	"context"
	"net/http"
	"time"
)

// Volume is a named volume.
type Volume struct {
	Name       string
	Labels     map[string]string
	CreatedAt  time.Time
	Mountpoint string // on the engine's machine
	UID, GID   int
}

// VolumeOptions describes a new volume.
type VolumeOptions struct {
	Name    string
	Labels  map[string]string
	Options map[string]string // of the driver

	// IgnoreIfExists leaves an existing volume unchanged. Podman before 4.5 ignores it.
	IgnoreIfExists bool
}

// CreateVolume makes a volume.
func CreateVolume(ctx context.Context, options VolumeOptions) (Volume, error) {
	r, err := carrying(options)
	if err != nil {
		return Volume{}, err
	}
	return ask[Volume](ctx, http.MethodPost, "/volumes/create", r)
}

// InspectVolume describes a volume.
func InspectVolume(ctx context.Context, name string) (Volume, error) {
	return ask[Volume](ctx, http.MethodGet, "/volumes/%s/json", to(name))
}

// ListVolumes lists the volumes that pass the filters.
func ListVolumes(ctx context.Context, of map[string][]string) ([]Volume, error) {
	query, err := filters(of)
	if err != nil {
		return nil, err
	}
	return ask[[]Volume](ctx, http.MethodGet, "/volumes/json", request{query: query})
}

// RemoveVolume removes a volume that no container uses.
func RemoveVolume(ctx context.Context, name string) error {
	return to(name).do(ctx, http.MethodDelete, "/volumes/%s")
}
