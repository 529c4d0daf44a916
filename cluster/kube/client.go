// Package kube is the part of the Kubernetes API that this program uses: typed objects in one namespace by client-go's REST
// client, with its own scheme. client-go's clientset knows every kind, which is 19 MB of program; this is 7.
//
// Start with Open. A Client's methods may be called by several goroutines at once, and end with their contexts.
package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Options names a cluster and a place in it.
type Options struct {
	// Kubeconfig is a file. Empty: those that KUBECONFIG names, or ~/.kube/config; if there is none, the account of the pod that
	// this program runs in.
	Kubeconfig string
	// Context is a context in the kubeconfig. Empty: its current one.
	Context string
	// Namespace is the place for everything that is made. Empty: the context's or the pod's.
	Namespace string
}

// Client speaks to one namespace in a cluster.
type Client struct {
	Namespace string
	Host      string // the API server's address, in the configuration's form
	Source    string // the configuration's source, for a person

	config  *rest.Config
	http    *http.Client
	clients map[schema.GroupVersion]*rest.RESTClient
}

// Object is a typed API object.
type Object interface {
	runtime.Object
	meta.Object
}

// groups have the used kinds.
var groups = map[schema.GroupVersion]func(*runtime.Scheme) error{
	core.SchemeGroupVersion:          core.AddToScheme,
	networking.SchemeGroupVersion:    networking.AddToScheme,
	authorization.SchemeGroupVersion: authorization.AddToScheme,
}

var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range groups {
		if err := add(s); err != nil {
			panic(err) // client-go's own types
		}
	}
	meta.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	klog.SetLogger(logr.Discard()) // client-go prints ended streams' errors to stderr
	return s
})

// Open reads the configuration. It does not connect.
func Open(o Options) (*Client, error) {
	_ = scheme() // before client-go logs anything
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Namespace = o.Namespace
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := newClient(config, cmp.Or(o.Namespace, namespace))
	if err != nil {
		return nil, err
	}
	c.Source = source(loaded, o)
	return c, nil
}

// newClient returns a client for an existing configuration.
func newClient(config *rest.Config, namespace string) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server bounds callers fairly by itself
	config.WarningHandler = rest.NoWarnings{}
	config.UserAgent = "code-sandbox-mcp"
	c := &Client{Namespace: namespace, Host: config.Host, config: config, clients: make(map[schema.GroupVersion]*rest.RESTClient)}
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c.http = shared
	codecs := serializer.NewCodecFactory(scheme()).WithoutConversion()
	for version := range groups {
		of := rest.CopyConfig(config)
		of.GroupVersion, of.NegotiatedSerializer, of.APIPath = &version, codecs, "/apis"
		if version.Group == "" {
			of.APIPath = "/api"
		}
		if c.clients[version], err = rest.RESTClientForConfigAndClient(of, shared); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// on begins a request.
func (c *Client) on(of runtime.Object, verb string) *rest.Request {
	kinds, _, err := scheme().ObjectKinds(of)
	if err != nil {
		panic(err) // no kind of the groups
	}
	kind := kinds[0]
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := apimeta.UnsafeGuessKindToResource(kind)
	r := c.clients[kind.GroupVersion()].Verb(verb).Resource(resource.Resource)
	return r.NamespaceIfScoped(c.Namespace, kind.Group != authorization.GroupName)
}

func parameters() runtime.ParameterCodec { return runtime.NewParameterCodec(scheme()) }

// Create makes an object, and reads it back from the cluster.
func (c *Client) Create(ctx context.Context, object Object) error {
	return c.on(object, http.MethodPost).Body(object).Do(ctx).Into(object)
}

// Get reads an object by its name.
func (c *Client) Get(ctx context.Context, name string, into Object) error {
	return c.on(into, http.MethodGet).Name(name).Do(ctx).Into(into)
}

// List reads a label selector's objects; empty: all.
func (c *Client) List(ctx context.Context, selector string, into runtime.Object) error {
	return c.on(into, http.MethodGet).VersionedParams(&meta.ListOptions{LabelSelector: selector}, parameters()).Do(ctx).Into(into)
}

// Patch changes parts of a named object, and reads it back.
func (c *Client) Patch(ctx context.Context, name string, as types.PatchType, patch any, into Object) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return c.on(into, http.MethodPatch).SetHeader("Content-Type", string(as)).Name(name).Body(body).Do(ctx).Into(into)
}

// Delete removes a named object, with the kind of of, and gives a pod so many seconds to end; below zero: its own. If of
// contains a UID, another object of that name is left alone: that is a conflict. It does not wait until the object is gone.
func (c *Client) Delete(ctx context.Context, name string, of Object, grace int64) error {
	options := &meta.DeleteOptions{}
	if grace >= 0 {
		options.GracePeriodSeconds = &grace
	}
	if uid := of.GetUID(); uid != "" {
		options.Preconditions = &meta.Preconditions{UID: &uid}
	}
	return c.on(of, http.MethodDelete).Name(name).Body(options).Do(ctx).Error()
}

// Watch follows changes, of one object or of a label selector's objects, from a version on.
func (c *Client) Watch(ctx context.Context, of runtime.Object, name, selector, version string) (watch.Interface, error) {
	options := &meta.ListOptions{LabelSelector: selector, ResourceVersion: version, Watch: true}
	if name != "" {
		options.FieldSelector = "metadata.name=" + name
	}
	return c.on(of, http.MethodGet).VersionedParams(options, parameters()).Watch(ctx)
}

// Call calls the API by a path. body and into are encoded in JSON; nil: none.
func (c *Client) Call(ctx context.Context, verb, path string, body, into any) error {
	r := c.clients[core.SchemeGroupVersion].Verb(verb).AbsPath(path)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r.Body(text).SetHeader("Content-Type", "application/json")
	}
	answer, err := r.Do(ctx).Raw()
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// Right is a right that a client needs in its namespace.
type Right struct {
	Verb, Group, Resource, Subresource string
}

func (r Right) String() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return r.Verb + " " + name
}

// Missing returns the rights that this client lacks.
func (c *Client) Missing(ctx context.Context, rights []Right) ([]Right, error) {
	lacks := make([]bool, len(rights))
	failed := make([]error, len(rights))
	var asking sync.WaitGroup
	for i, r := range rights {
		asking.Go(func() {
			review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorization.ResourceAttributes{
					Namespace: c.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
				},
			}}
			failed[i] = c.on(review, http.MethodPost).Body(review).Do(ctx).Into(review)
			lacks[i] = !review.Status.Allowed
		})
	}
	asking.Wait()
	var missing []Right
	for i, r := range rights {
		if lacks[i] {
			missing = append(missing, r)
		}
	}
	return missing, errors.Join(failed...)
}
