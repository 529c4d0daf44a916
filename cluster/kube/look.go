// A cluster's description for people.

package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	node "k8s.io/api/node/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/clientcmd"
)

// source names a configuration's source.
func source(loaded clientcmd.ClientConfig, o Options) string {
	raw, err := loaded.RawConfig()
	if err != nil || clientcmd.IsEmptyConfig(err) || len(raw.Contexts) == 0 {
		return "the account of this pod"
	}
	name := raw.CurrentContext
	if o.Context != "" {
		name = o.Context
	}
	if c := raw.Contexts[name]; c != nil && c.LocationOfOrigin != "" {
		return fmt.Sprintf("context %s of %s", name, c.LocationOfOrigin)
	}
	return "context " + name
}

// Version returns the API server's version.
func (c *Client) Version(ctx context.Context) (*version.Info, error) {
	v := &version.Info{}
	return v, c.Call(ctx, http.MethodGet, "/version", nil, v)
}

// Labels returns those of this client's namespace, which not every account may read.
func (c *Client) Labels(ctx context.Context) (map[string]string, error) {
	namespace := &core.Namespace{}
	err := c.Call(ctx, http.MethodGet, "/api/v1/namespaces/"+c.Namespace, nil, namespace)
	return namespace.Labels, err
}

// Handler returns the nodes' name for a RuntimeClass, which not every account may read.
func (c *Client) Handler(ctx context.Context, class string) (string, error) {
	found := &node.RuntimeClass{}
	err := c.Call(ctx, http.MethodGet, "/apis/node.k8s.io/v1/runtimeclasses/"+class, nil, found)
	return found.Handler, err
}

// Account returns this client's name on the API server.
func (c *Client) Account(ctx context.Context) (string, error) {
	review := &authentication.SelfSubjectReview{TypeMeta: meta.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
	err := c.Call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, review)
	return review.Status.UserInfo.Username, err
}

// clockLooks is the number of requests for the API server's time.
const clockLooks = 5

// Clock returns the median time of an answer, and how far the API server's clock is ahead of this machine's, to a second or two.
func (c *Client) Clock(ctx context.Context) (roundTrip, ahead time.Duration, err error) {
	var times []time.Duration
	for range clockLooks {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.clients[core.SchemeGroupVersion].Get().AbsPath("/version").URL().String(), nil)
		if err != nil {
			return 0, 0, err
		}
		began := time.Now()
		answer, err := c.http.Do(request)
		if err != nil {
			return 0, 0, err
		}
		_ = answer.Body.Close()
		took := time.Since(began)
		times = append(times, took)
		if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			ahead = date.Add(time.Second / 2).Sub(began.Add(took / 2)) // the middle of the named second
		}
	}
	slices.Sort(times)
	return times[clockLooks/2], ahead, nil
}
