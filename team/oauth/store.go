// The file of clients and grants.

package oauth

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/ownfile"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// FileName is the file's name in the state directory.
const FileName = "oauth.json"

// Bounds of the file's content.
const (
	maxClients = 500
	// maxGrants limits the grants of one principal; the longest unused makes room.
	maxGrants = 50
	// maxAccess is how many access tokens of one grant are good at once; a refresh takes back the one that ends first.
	maxAccess = 5
)

// Prefixes of secrets, by which a leaked one is recognized.
const (
	accessPrefix  = "csm_at_"
	refreshPrefix = "csm_rt_"
	codePrefix    = "csm_ac_"
)

var (
	errUnknown = errors.New("the token is not known here: it was revoked, or never given")
	errExpired = errors.New("the token has expired")
	errReused  = errors.New("the token was used before, so that all of its grant are revoked")
	errFull    = errors.New("there are too many clients with grants")
)

// client is a registered program (RFC 7591).
type client struct {
	Name      string   `json:"name,omitempty"` // as it calls itself
	Redirects []string `json:"redirects"`
	// Refresh is whether it says that it uses refresh tokens.
	Refresh bool `json:"refresh,omitempty"`
	// Method is the client's authentication, and Secret the sum of its secret; both are empty for a public one.
	Method string    `json:"method,omitempty"`
	Secret string    `json:"secret,omitempty"`
	Used   time.Time `json:"used"`
}

// Grant is a person's permission for a program, with the sums of its tokens.
type Grant struct {
	ID        string   `json:"id"`
	Principal string   `json:"principal"` // empty: the user whose server it is
	Groups    []string `json:"groups,omitempty"`
	// Source is the kind of the principal's credential, and Credential identifies it among others of its kind.
	Source     string    `json:"source"`
	Credential string    `json:"credential"`
	Client     string    `json:"client"`
	ClientName string    `json:"client_name,omitempty"` // as it calls itself
	Redirect   string    `json:"redirect"`              // the host, or what stands for one, that codes go to
	Scope      string    `json:"scope"`
	Audience   string    `json:"audience"`
	Created    time.Time `json:"created"`
	Used       time.Time `json:"used"`           // when its last token was given out
	Until      time.Time `json:"until,omitzero"` // its end, whatever is refreshed; zero: none
	// GroupsUntil is the end of the Provider's data on the groups; zero: there are none. Renewal is the Provider's token that renews them,
	// encrypted with the family: the file alone is not enough.
	GroupsUntil time.Time `json:"groups_until,omitzero"`
	Renewal     string    `json:"renewal,omitempty"`

	// Access maps the sums of access tokens to their ends. Family is the sum of the part that all refresh tokens share, and Refresh that of
	// the valid one, until RefreshEnds.
	Access      map[string]time.Time `json:"access"`
	Family      string               `json:"family,omitempty"`
	Refresh     string               `json:"refresh,omitempty"`
	RefreshEnds time.Time            `json:"refresh_ends,omitzero"`
}

func (g *Grant) isOver(now time.Time) bool {
	if !g.Until.IsZero() && !now.Before(g.Until) {
		return true
	}
	for _, end := range g.Access {
		if now.Before(end) {
			return false
		}
	}
	return !now.Before(g.RefreshEnds)
}

// learn takes the Provider's data, which count for an hour at the most.
func (g *Grant) learn(s said, now time.Time) {
	g.Groups, g.Renewal, g.GroupsUntil = s.who.Groups, s.renewal, now.Add(accessTime).UTC()
	if s.until.Before(g.GroupsUntil) {
		g.GroupsUntil = s.until.UTC()
	}
}

func (g *Grant) person() principal.Principal {
	return principal.Principal{Name: g.Principal, Groups: g.Groups, Source: g.Source}
}

type contents struct {
	Clients map[string]*client `json:"clients"`
	Grants  map[string]*Grant  `json:"grants"`
}

// Store holds the clients and grants in a file. Each server and each command of a user opens its own on the same file; a change by one
// reaches the others at their next request. Its methods are safe for use by several goroutines.
type Store struct {
	file *ownfile.File[contents]
	now  func() time.Time
}

// OpenStore returns the store of a file, which need not be there, and reads nothing yet.
func OpenStore(path string) *Store {
	return &Store{file: ownfile.Open[contents](path), now: time.Now}
}

// change changes the file, and removes expired entries.
func (s *Store) change(how func(c *contents, now time.Time) error) error {
	return s.file.Change(func(c *contents) error {
		if c.Clients == nil {
			c.Clients = make(map[string]*client)
		}
		if c.Grants == nil {
			c.Grants = make(map[string]*Grant)
		}
		now := s.now().UTC()
		err := how(c, now)
		for id, g := range c.Grants {
			for sum, end := range g.Access {
				if !now.Before(end) {
					delete(g.Access, sum)
				}
			}
			if g.isOver(now) {
				delete(c.Grants, id)
			}
		}
		return err
	})
}

// Grants returns those that are good, by the names of their principals and their age.
func (s *Store) Grants() ([]Grant, error) {
	c, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	grants := make([]Grant, 0, len(c.Grants))
	for _, g := range c.Grants {
		if !g.isOver(s.now()) {
			grants = append(grants, *g)
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Principal, b.Principal), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return grants, nil
}

// Revoke takes back the grants that a function chooses, and returns them.
func (s *Store) Revoke(which func(*Grant) bool) ([]Grant, error) {
	var revoked []Grant
	err := s.change(func(c *contents, _ time.Time) error {
		for id, g := range c.Grants {
			if which(g) {
				revoked = append(revoked, *g)
				delete(c.Grants, id)
			}
		}
		if len(revoked) == 0 {
			return ownfile.ErrUnchanged
		}
		return nil
	})
	return revoked, err
}

func (s *Store) revokeID(id string) error {
	_, err := s.Revoke(func(g *Grant) bool { return g.ID == id })
	return err
}

// register adds a client. The longest unused one without a grant makes room.
func (s *Store) register(id string, added client) error {
	return s.change(func(c *contents, now time.Time) error {
		if len(c.Clients) >= maxClients {
			granted := make(map[string]bool)
			for _, g := range c.Grants {
				granted[g.Client] = true
			}
			longest := ""
			for id, known := range c.Clients {
				if !granted[id] && (longest == "" || known.Used.Before(c.Clients[longest].Used)) {
					longest = id
				}
			}
			if longest == "" {
				return errFull
			}
			delete(c.Clients, longest)
		}
		added.Used = now
		c.Clients[id] = &added
		return nil
	})
}

// client returns a registered client; nil: it is not known.
func (s *Store) client(id string) (*client, error) {
	c, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	return c.Clients[id], nil
}

// isGranted reports whether somebody granted a client anything.
func (s *Store) isGranted(client string) bool {
	c, err := s.file.Read()
	if err != nil {
		return false
	}
	for _, g := range c.Grants {
		if g.Client == client && !g.isOver(s.now()) {
			return true
		}
	}
	return false
}

// issued are tokens in the clear, which are kept nowhere.
type issued struct {
	access, refresh, scope string
	lasts                  time.Duration // the access token
}

// add keeps a new grant, and gives out its first tokens.
func (s *Store) add(g Grant, refreshes bool) (issued, error) {
	var out issued
	err := s.change(func(c *contents, now time.Time) error {
		var longest *Grant
		own := 0
		for _, other := range c.Grants {
			if other.Principal == g.Principal {
				own++
				if longest == nil || other.Used.Before(longest.Used) {
					longest = other
				}
			}
		}
		if own >= maxGrants {
			delete(c.Grants, longest.ID)
		}
		if known := c.Clients[g.Client]; known != nil {
			known.Used = now
		}
		g.Created, g.Access = now, make(map[string]time.Time)
		c.Grants[g.ID] = &g
		family := ""
		if refreshes {
			family = rand.Text()
			g.Family, g.Renewal = sumOf(family), hide(family, g.Renewal)
		}
		out = g.issue(family, now)
		return nil
	})
	return out, err
}

// issue gives out an access token, and a refresh token of a family, if there is one.
func (g *Grant) issue(family string, now time.Time) issued {
	out := issued{access: accessPrefix + g.ID + "_" + rand.Text(), scope: g.Scope}
	for len(g.Access) >= maxAccess {
		first := ""
		for sum, end := range g.Access {
			if first == "" || end.Before(g.Access[first]) {
				first = sum
			}
		}
		delete(g.Access, first)
	}
	g.Used = now
	ends := g.within(now.Add(accessTime))
	if !g.GroupsUntil.IsZero() && g.GroupsUntil.Before(ends) {
		ends = g.GroupsUntil
	}
	g.Access[sumOf(out.access)], out.lasts = ends, ends.Sub(now)
	if family != "" {
		out.refresh = refreshPrefix + g.ID + "_" + family + "_" + rand.Text()
		g.Refresh, g.RefreshEnds = sumOf(out.refresh), g.within(now.Add(refreshTime))
	}
	return out
}

// within is a time, or the grant's end, if that comes before.
func (g *Grant) within(end time.Time) time.Time {
	if !g.Until.IsZero() && g.Until.Before(end) {
		return g.Until
	}
	return end
}

// refresh returns new tokens for a refresh token and ends its validity. A repeated one revokes its grant: it or the one that came of it is
// in wrong hands. It calls check first and returns its error, and then renew for the Provider's present data, if they are due.
func (s *Store) refresh(token string, check func(*Grant) error, renew func(g *Grant, renewal string) (said, error)) (issued, error) {
	// Without the file's lock, for which strangers would contend, a text that is no token is refused.
	known, err := s.file.Read()
	if err != nil {
		return issued{}, err
	}
	g, family := known.refreshable(token)
	if g == nil {
		return issued{}, errUnknown
	}
	var now said
	renews := g.Renewal != "" && isSum(g.Refresh, token) && s.now().Before(g.RefreshEnds)
	if renews { // before the file is locked
		if err := check(g); err != nil {
			return issued{}, err
		}
		if now, err = renew(g, reveal(family, g.Renewal)); err != nil {
			return issued{}, err
		}
	}
	var out issued
	var refused error // of a change that is written
	err = s.change(func(c *contents, at time.Time) error {
		g, family := c.refreshable(token)
		if g == nil {
			return errUnknown
		}
		if err := check(g); err != nil {
			return err
		}
		switch {
		case !isSum(g.Refresh, token):
			delete(c.Grants, g.ID)
			refused = errReused
		case !at.Before(g.RefreshEnds):
			return errExpired
		default:
			if renews {
				g.learn(now, at)
				g.Renewal = hide(family, g.Renewal)
			}
			out = g.issue(family, at)
		}
		return nil
	})
	return out, errors.Join(refused, err)
}

// access returns the grant of an access token, which is not to be changed.
func (s *Store) access(token string) (*Grant, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(token, accessPrefix), "_")
	c, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	g := c.Grants[id]
	if g == nil {
		return nil, errUnknown
	}
	end, known := g.Access[sumOf(token)]
	switch {
	case !known:
		return nil, errUnknown
	case !s.now().Before(end):
		return nil, errExpired
	}
	return g, nil
}

// owner returns the grant that a token is of, even one that is not good any more; nil: there is none.
func (s *Store) owner(token string) (*Grant, error) {
	c, err := s.file.Read()
	if err != nil {
		return nil, err
	}
	if rest, is := strings.CutPrefix(token, accessPrefix); is {
		id, _, _ := strings.Cut(rest, "_")
		if g := c.Grants[id]; g != nil && !g.Access[sumOf(token)].IsZero() {
			return g, nil
		}
	}
	g, _ := c.refreshable(token)
	return g, nil
}

// refreshable returns the grant of a refresh token, even one that was used, and its family; nil: there is none.
func (c *contents) refreshable(token string) (g *Grant, family string) {
	rest, is := strings.CutPrefix(token, refreshPrefix)
	id, rest, _ := strings.Cut(rest, "_")
	family, _, _ = strings.Cut(rest, "_")
	if g = c.Grants[id]; !is || g == nil || g.Family == "" || !isSum(g.Family, family) {
		return nil, ""
	}
	return g, family
}

func newID(kind string) string { return kind + strings.ToLower(rand.Text()[:16]) }

// sumOf returns the SHA-256 sum of a text, in hexadecimal: the form in which secrets, all of which are random, are kept.
func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// hide encrypts a text with a key, a random text.
func hide(key, text string) string {
	if text == "" {
		return ""
	}
	return base64.RawStdEncoding.EncodeToString(cipherOf(key).Seal(nil, nil, []byte(text), nil)) //nolint:gosec // the cipher makes a nonce of its own
}

// reveal is the text that was hidden; empty where it was by another key.
func reveal(key, hidden string) string {
	raw, _ := base64.RawStdEncoding.DecodeString(hidden)
	text, _ := cipherOf(key).Open(nil, nil, raw, nil)
	return string(text)
}

func cipherOf(key string) cipher.AEAD {
	sum := sha256.Sum256([]byte("renewal " + key))
	block, _ := aes.NewCipher(sum[:]) // the key's length is right
	sealed, _ := cipher.NewGCMWithRandomNonce(block)
	return sealed
}

func isSum(sum, text string) bool {
	return subtle.ConstantTimeCompare([]byte(sum), []byte(sumOf(text))) == 1
}
