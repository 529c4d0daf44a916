package openterminal

import (
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/apis"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	maxWait = 300 // seconds
	// maxText is the longest output, or file, that is answered as text, in bytes.
	maxText = 1 << 20
	// maxKept limits the folders and the commands that are kept, and maxCommand the kept text of one, in bytes.
	maxKept    = 1000
	maxCommand = 2000
)

// chats holds the state of the chats: their working directories, and the commands that they began.
type chats struct {
	seal     *apis.Seal
	open     atomic.Int32 // terminals
	mu       sync.Mutex
	folders  map[string]string // by chat, relative to the work directory
	commands []command         // the oldest first
}

func newChats() *chats { return &chats{folders: make(map[string]string)} }

// call is a request, and its principal's session.
type call struct {
	rest.Host
	*chats
	w             http.ResponseWriter
	r             *http.Request
	session, chat string
	cwd           string // the working directory of the chat, relative to the work directory
	below         string // the path that is asked for, likewise
}

// serve answers with a handler's result. A handler that answered itself returns nil.
func (c *chats) serve(handle func(*call) (any, error)) func(rest.Host, http.ResponseWriter, *http.Request) error {
	return func(h rest.Host, w http.ResponseWriter, r *http.Request) error {
		asked, err := c.callOf(h, w, r)
		if err != nil {
			return err
		}
		value, err := handle(asked)
		if err == nil && value != nil {
			web.JSON(w, http.StatusOK, value)
		}
		return err
	}
}

// decode decodes the body of a request, and the path in it, for a handler.
func decode[B any](handle func(*call, B) (any, error)) func(*call) (any, error) {
	return func(c *call) (value any, err error) {
		var body B
		if err := rest.Decode(c.r, &body); err != nil {
			return nil, err
		}
		if of, has := any(body).(interface{ at() string }); has {
			c.below, err = c.resolve(of.at())
		}
		if err != nil {
			return nil, err
		}
		return handle(c, body)
	}
}

// callOf finds the session of a request, and makes it if there is none, and the path in its address. Open WebUI names the asking user in a
// header: one token owns a session for each of them.
func (c *chats) callOf(h rest.Host, w http.ResponseWriter, r *http.Request) (*call, error) {
	asked := &call{Host: h, chats: c, w: w, r: r, session: "terminal"}
	if user := r.Header.Get("X-User-Id"); user != "" {
		sum := sha256.Sum256([]byte(user))
		asked.session += "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	}
	chat := sha256.Sum256([]byte(asked.session + "/" + r.Header.Get("X-Session-Id"))) // which is kept, however long it is
	asked.chat = string(chat[:])
	c.mu.Lock()
	asked.cwd = c.folders[asked.chat]
	c.mu.Unlock()
	if _, err := h.Sessions().Lease(asked.session, true); err != nil {
		return nil, err
	}
	query, err := r.URL.Query(), error(nil)
	given := query.Get("path") + query.Get("directory") // no route takes both
	if served := r.PathValue("path"); served != "" {
		given = "/" + served
	}
	asked.below, err = asked.resolve(given)
	return asked, err
}

// resolve makes a path relative to the work directory, which is the home directory: empty where it is that.
func (c *call) resolve(given string) (string, error) {
	switch {
	case given == "~" || strings.HasPrefix(given, "~/"):
		given = engine.WorkDir + given[1:]
	case !strings.HasPrefix(given, "/"):
		given = path.Join(engine.WorkDir, c.cwd, given)
	}
	clean := path.Clean(given)
	if clean == engine.WorkDir {
		return "", nil
	}
	below, is := strings.CutPrefix(clean, engine.WorkDir+"/")
	if !is {
		return "", fault.New(fault.InvalidPath, "Use run_command for what is elsewhere.", "%q is not below %s.", text.Shorten(given, 200), engine.WorkDir)
	}
	return sandbox.CleanPath(below)
}

func absolute(below string) string { return path.Join(engine.WorkDir, below) }

func errNoPath(below string) error {
	return fault.New(fault.NotFound, "list_files says what there is.", "There is no %q.", absolute(below))
}

// count reads a whole number of the query.
func (c *call) count(name string, standard int64) (int64, error) {
	given := c.r.URL.Query().Get(name)
	if given == "" || given == "null" {
		return standard, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.InvalidArgument, "Leave it out, or pass a number such as 10.", "%s is %q and must be a whole number.", name, text.Shorten(given, 40))
	}
	return n, nil
}

// results reads the wanted number of a search's results.
func (c *call) results() (int, error) {
	most, err := c.count("max_results", 50)
	return int(max(1, min(most, 500))), err
}

// is reads true or false of the query.
func (c *call) is(name string, standard bool) bool {
	given, err := strconv.ParseBool(c.r.URL.Query().Get(name))
	if err != nil {
		return standard
	}
	return given
}
