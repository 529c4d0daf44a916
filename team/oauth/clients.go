// Clients: those that register (RFC 7591), and those with a document at their own address (client ID metadata documents).

package oauth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/net/publicsuffix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

const (
	maxMetadata    = 16 << 10
	maxName        = 80
	documentTime   = 5 * time.Second
	maxDocuments   = 100 // that are remembered
	documentsFresh = 10 * time.Minute
	// maxFetches bounds the documents that are fetched at once, and hostFetches those of one owner of a domain. Clients with a grant use
	// keptFetches of their own.
	maxFetches  = 12
	keptFetches = 4
	hostFetches = 2
	maxClient   = 500 // bytes of a client's id
)

// Methods by which a client authenticates. The first is that of public ones, which PKCE protects.
const (
	methodNone  = "none"
	methodPost  = "client_secret_post"
	methodBasic = "client_secret_basic"
)

// metadata is a client's description of itself; other fields are ignored.
type metadata struct {
	ID         string   `json:"client_id,omitempty"`
	Secret     string   `json:"client_secret,omitempty"`
	IssuedAt   int64    `json:"client_id_issued_at,omitempty"`
	SecretEnds *int64   `json:"client_secret_expires_at,omitempty"`
	Name       string   `json:"client_name,omitempty"`
	Redirects  []string `json:"redirect_uris"`
	Grants     []string `json:"grant_types,omitempty"`
	Responses  []string `json:"response_types,omitempty"`
	Method     string   `json:"token_endpoint_auth_method,omitempty"`
	Scope      string   `json:"scope,omitempty"`
}

func (m *metadata) client() client {
	name := strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, m.Name))
	return client{Name: text.Shorten(name, maxName), Redirects: m.Redirects, Refresh: slices.Contains(m.Grants, grantRefresh)}
}

// check refuses a client that asks for anything unsupported.
func (m *metadata) check() error {
	if len(m.Grants) > 0 && !slices.Contains(m.Grants, grantCode) {
		return fmt.Errorf("the grant types do not have %q", grantCode)
	}
	if len(m.Responses) > 0 && !slices.Contains(m.Responses, "code") {
		return errors.New(`the response types do not have "code"`)
	}
	return nil
}

// register is the endpoint of RFC 7591.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var m metadata
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMetadata))
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", fmt.Sprintf("the body has to be a JSON object of at most %d bytes", maxMetadata))
		return
	}
	if err := checkRedirects(m.Redirects); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_redirect_uri", err.Error())
		return
	}
	if err := m.check(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", err.Error())
		return
	}
	registered := m.client()
	answer := metadata{
		ID: newID("csm_client_"), IssuedAt: s.o.Now().Unix(), Name: registered.Name, Redirects: m.Redirects, Method: methodNone,
		Grants: []string{grantCode}, Responses: []string{"code"}, Scope: Scope,
	}
	if registered.Refresh {
		answer.Grants = append(answer.Grants, grantRefresh)
	}
	if m.Method == methodPost || m.Method == methodBasic {
		answer.Method, answer.Secret, answer.SecretEnds = m.Method, rand.Text()+rand.Text(), new(int64)
		registered.Method, registered.Secret = m.Method, sumOf(answer.Secret)
	}
	s.registering.Lock()
	err = s.o.Store.register(answer.ID, registered)
	s.registering.Unlock()
	if err != nil {
		s.warn("a client could not register", "error", err)
		refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "no client can register now; the server's log says why")
		return
	}
	web.JSON(w, http.StatusCreated, answer)
}

// isDocument reports whether a client's id is the address of a document about it.
func isDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// errNoClient is the error for an unknown client; its text is for a person.
type errNoClient string

func (e errNoClient) Error() string { return string(e) }

// find returns a client that a browser comes from.
func (s *Server) find(ctx context.Context, id string) (*client, error) {
	switch {
	case id == "" || len(id) > maxClient:
		return nil, errNoClient("The request does not name the program that it is for (client_id).")
	case isDocument(id):
		return s.documents.get(ctx, id, s.o.Store.isGranted(id))
	}
	known, err := s.o.Store.client(id)
	if err == nil && known == nil {
		err = errNoClient("The program that sent you here is not known to this server, or not any more. Remove the connection there, and make it anew.")
	}
	return known, err
}

// documents fetches and caches the documents at clients' own addresses.
type documents struct {
	client     *http.Client
	now        func() time.Time
	free, kept *fair.Places

	mu    sync.Mutex
	known map[string]document
}

type document struct {
	client *client
	until  time.Time
}

func newDocuments(transport http.RoundTripper, now func() time.Time) *documents {
	if transport == nil {
		transport = &http.Transport{
			Proxy: nil, DialContext: netguard.Dial(443), ForceAttemptHTTP2: true, TLSHandshakeTimeout: documentTime, MaxResponseHeaderBytes: maxMetadata,
			// A connection that is kept could be used again for a name that leads elsewhere by now.
			DisableKeepAlives: true,
		}
	}
	return &documents{
		client: &http.Client{
			Transport: transport, Timeout: documentTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: now, free: fair.NewFew(maxFetches, hostFetches), kept: fair.NewFew(keptFetches, hostFetches), known: make(map[string]document),
	}
}

// ownerOf returns the part of an address that belongs to one owner, as far as is known: everybody can get names below some domains.
func ownerOf(id string) string {
	u, _ := url.Parse(id) // it was checked
	suffix, isICANN := publicsuffix.PublicSuffix(u.Hostname())
	if owner, err := publicsuffix.EffectiveTLDPlusOne(u.Hostname()); err == nil && isICANN {
		return owner
	}
	return suffix
}

// get returns the client of an address, by a reserved place if it holds a grant.
func (d *documents) get(ctx context.Context, id string, isGranted bool) (*client, error) {
	d.mu.Lock()
	known, is := d.known[id]
	d.mu.Unlock()
	if is && d.now().Before(known.until) {
		return known.client, nil
	}
	if err := checkDocument(id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*documentTime) // in which its turn comes too
	defer cancel()
	places := d.free
	if isGranted {
		places = d.kept
	}
	leave, err := places.Take(ctx, ownerOf(id))
	if err != nil {
		return nil, errNoClient("Too many programs are looked up at once. Try again in a minute.")
	}
	defer leave()
	c, err := d.fetch(ctx, id)
	if err != nil {
		return nil, errNoClient(fmt.Sprintf("What the program says of itself at %s cannot be used: %s.", text.Shorten(id, 200), err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxDocuments {
		first := ""
		for id, known := range d.known {
			if first == "" || known.until.Before(d.known[first].until) {
				first = id
			}
		}
		delete(d.known, first)
	}
	d.known[id] = document{c, d.now().Add(documentsFresh)}
	return c, nil
}

// checkDocument refuses addresses that are no client's id.
func checkDocument(id string) error {
	u, err := url.Parse(id)
	if err != nil || u.Scheme != "https" || !isName.MatchString(u.Hostname()) || u.User != nil || u.Path == "" || u.Path == "/" || u.RawQuery != "" ||
		strings.Contains(id, "#") || u.String() != id || slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "." || part == ".." }) {
		return errNoClient("The program's id (client_id) is an address at which no program's document can be.")
	}
	return nil
}

func (d *documents) fetch(ctx context.Context, id string) (*client, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil) //nolint:gosec // the transport connects to the open internet alone
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "code-sandbox-mcp")
	response, err := d.client.Do(request) //nolint:gosec // likewise
	if err != nil {
		return nil, errors.New(netguard.Reason(err)) // the error itself contains addresses
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d, and redirects are not followed", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMetadata+1))
	if err != nil {
		return nil, errors.New(netguard.Reason(err))
	}
	var m metadata
	switch err := json.Unmarshal(body, &m); {
	case len(body) > maxMetadata:
		return nil, fmt.Errorf("it has more than %d bytes", maxMetadata)
	case err != nil:
		return nil, errors.New("it is not a JSON object of the right form")
	case m.ID != id:
		return nil, errors.New("its client_id is another address")
	case m.Secret != "" || strings.HasPrefix(m.Method, "client_secret"):
		return nil, errors.New("it speaks of a secret, which everybody could read there")
	}
	if err := errors.Join(checkRedirects(m.Redirects), m.check()); err != nil {
		return nil, err
	}
	c := m.client()
	return &c, nil
}
