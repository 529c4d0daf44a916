package libpod

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// BuildOptions describes the build of an image from the Containerfile at the root of its context.
type BuildOptions struct {
	Args        map[string]string
	Labels      []string // NAME=VALUE
	Name        string   // of the image; may be empty
	HostNetwork bool     // steps use the network of the engine's machine, instead of one of their own
	HTTPProxy   bool     // steps receive the engine's variables for proxies
	Layers      bool     // keep and reuse layers, instead of making all one
	Ulimits     []string // NAME=SOFT:HARD
}

// networkEnabled is buildah's number for a build with a network in its steps.
const networkEnabled = "2"

func (o BuildOptions) query() (url.Values, error) {
	query := url.Values{
		"dockerfile":   {`["Containerfile"]`},
		"t":            {o.Name},
		"output":       {o.Name},
		"outputformat": {"application/vnd.oci.image.manifest.v1+json"},
		"pullpolicy":   {"PullNever"},
		"networkmode":  {networkEnabled},
		// A step's container goes, even if it failed.
		"rm":      {"1"},
		"forcerm": {"1"},
	}
	for key, on := range map[string]bool{"httpproxy": o.HTTPProxy, "layers": o.Layers} {
		if on {
			query.Set(key, "1")
		}
	}
	type namespace struct {
		Name string
		Host bool
	}
	for key, value := range map[string]any{
		"buildargs": o.Args,
		"labels":    o.Labels,
		"ulimits":   o.Ulimits,
		"nsoptions": []namespace{{"network", o.HostNetwork}},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if string(text) != "null" {
			query.Set(key, string(text))
		}
	}
	return query, nil
}

// imageID is the last line of a build's output.
var imageID = regexp.MustCompile(`^[0-9a-f]{12,}\n?$`)

// Build builds an image of a context, a tar archive, and returns its id. It does not pull base images. It writes the output of the
// steps to output.
func Build(ctx context.Context, archive io.Reader, options BuildOptions, output io.Writer) (id string, err error) {
	query, err := options.query()
	if err != nil {
		return "", err
	}
	r := request{query: query, body: archive, header: http.Header{"Content-Type": {"application/x-tar"}}}
	err = r.follow(ctx, http.MethodPost, "/build", func(bit told) error {
		if imageID.MatchString(bit.Stream) {
			id = strings.TrimSpace(bit.Stream)
		}
		_, err := io.WriteString(output, bit.Stream)
		return err
	})
	return id, err
}
