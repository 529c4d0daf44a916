package libpod

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/containers/podman/v5/pkg/auth"
)

// Image is an engine's description of an image.
type Image struct {
	ID           string `json:"Id"`
	Architecture string
	Labels       map[string]string
	Size         int64 // bytes, unpacked
	Config       struct{ Env []string }
}

// InspectImage describes an image of the engine.
func InspectImage(ctx context.Context, ref string) (Image, error) {
	return ask[Image](ctx, http.MethodGet, "/images/%s/json", to(ref))
}

// ImageExists reports whether the engine holds an image.
func ImageExists(ctx context.Context, ref string) (bool, error) {
	err := to(ref).do(ctx, http.MethodGet, "/images/%s/exists")
	if status, answered := Status(err); answered && status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// TagImage gives an image one more name.
func TagImage(ctx context.Context, ref, repository, tag string) error {
	r := request{names: []string{ref}, query: url.Values{"repo": {repository}, "tag": {tag}}}
	return r.do(ctx, http.MethodPost, "/images/%s/tag")
}

// SaveImages writes images as an archive of Docker's kind, each under its requested name.
func SaveImages(ctx context.Context, refs []string, archive io.Writer) error {
	r := request{query: url.Values{"format": {"docker-archive"}, "references": refs}}
	return r.download(ctx, "/images/export", archive)
}

// LoadImages loads an archive of images, plain or packed, and returns their names.
func LoadImages(ctx context.Context, archive io.Reader) ([]string, error) {
	r := request{body: archive, header: http.Header{"Content-Type": {"application/x-tar"}}}
	loaded, err := ask[struct{ Names []string }](ctx, http.MethodPost, "/images/load", r)
	return loaded.Names, err
}

// RemoveImage takes a name from an image, and removes the image if that was the last and no container uses it.
func RemoveImage(ctx context.Context, ref string) error {
	return to(ref).do(ctx, http.MethodDelete, "/images/%s")
}

// ImportImage makes an image of a tar archive; changes are instructions of a Containerfile.
func ImportImage(ctx context.Context, archive io.Reader, ref string, changes []string) error {
	r := request{query: url.Values{"reference": {ref}, "changes": changes}, body: archive}
	return r.do(ctx, http.MethodPost, "/images/import")
}

// Layer is the progress of one pulled layer, in bytes. A Total below 1 is unknown.
type Layer struct {
	ID             string
	Current, Total int64
}

// PullImage pulls an image, with the credentials of this machine's user, and writes its progress to progress. Podman 5 and newer
// also report each layer to layers. An insecure registry may use an unknown certificate. A pull may end without an error when ctx
// ends.
func PullImage(ctx context.Context, ref string, insecure bool, progress io.Writer, layers func(Layer)) error {
	header, err := auth.MakeXRegistryAuthHeader(nil, "", "")
	if err != nil {
		return err
	}
	// Docker's form of the answer includes sizes; old versions do not support it, and answer in their own.
	r := request{query: url.Values{"reference": {ref}, "compatMode": {"true"}}, header: header}
	if insecure {
		r.query.Set("tlsVerify", "false")
	}
	return r.follow(ctx, http.MethodPost, "/images/pull", func(bit told) error {
		text := bit.Stream
		switch bit.Status {
		case "Pulling fs layer":
			text = "Copying blob " + bit.ID + "\n" // in the other form's words
		case "Downloading":
			layers(Layer{bit.ID, bit.ProgressDetail.Current, bit.ProgressDetail.Total})
		}
		_, err := io.WriteString(progress, text)
		return err
	})
}
