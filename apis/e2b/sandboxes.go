package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

const (
	base, interpreter = "base", "code-interpreter-v1" // the templates, of one image
	defaultTimeout    = 300                           // seconds, as the vendor's
	maxTimeout        = 24 * 3600
	recordName        = "e2b.json" // beside the session's lock
	maxRecord         = 256 << 10  // bytes
	listed            = 100        // sandboxes per answer
	endTime           = time.Minute
	noNetwork         = "none"
	running, paused   = "running", "paused"
)

// record is what is known of a sandbox beside its session, in the session's folder: it goes with that.
type record struct {
	ID        string            `json:"id"`
	Template  string            `json:"template"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Started   time.Time         `json:"started"`
	Ends      time.Time         `json:"ends"`
	AutoPause bool              `json:"auto_pause,omitempty"`
	AutoWake  bool              `json:"auto_resume,omitempty"`
	Paused    bool              `json:"paused,omitempty"`
	Contexts  []codeContext     `json:"contexts,omitempty"` // further ones of Python
}

// box is a sandbox in use. The mutex guards what is not the record's id.
type box struct {
	saving    sync.Mutex // is held while the record is changed, here and on the disk; before mu
	mu        sync.Mutex
	record    record
	ending    bool        // it is about to be removed
	timer     *time.Timer // ends it
	programs  map[int]*program
	starting  int // programs that are not among them yet
	watchers  map[string]*watcher
	contexts  map[string]*codeContext
	defaulted bool                // the languages' contexts are there
	made      int                 // contexts
	runEnv    map[string][]string // names that a language's last run set for itself
	plain     bool                // Python's kernel has had no variables but those of its default context
}

type router = func(method, path, id, tool, summary string, serve func(c *call) error)

func (s *server) controlRoutes(add router) {
	with := func(serve func(*call, *box) error) func(*call) error {
		return func(c *call) error {
			b, err := c.find(c.r.PathValue("sandbox"))
			if err != nil {
				return err
			}
			return serve(c, b)
		}
	}
	const one = "/sandboxes/{sandbox}"
	add("POST", "/sandboxes", "create", rest.RunTool, "Make a sandbox.", (*call).create)
	add("POST", "/v2/sandboxes", "create_v2", rest.RunTool, "Make a sandbox.", (*call).create)
	add("GET", "/sandboxes", "list", list, "List running sandboxes.", (*call).list)
	add("GET", "/v2/sandboxes", "list_v2", list, "List sandboxes.", (*call).list)
	add("GET", one, "get", describe, "Describe a sandbox.", with((*call).get))
	add("DELETE", one, "kill", end, "Remove a sandbox.", with((*call).kill))
	add("GET", one+"/metrics", "metrics", describe, "Measure a sandbox.", with((*call).metrics))
	add("POST", one+"/timeout", "timeout", rest.RunTool, "Set a sandbox's time from now on.", with((*call).setTimeout))
	add("POST", one+"/refreshes", "refresh", rest.RunTool, "Prolong a sandbox's time.", with((*call).setTimeout))
	add("POST", one+"/pause", "pause", end, "Freeze a sandbox.", with((*call).pause))
	add("POST", one+"/resume", "resume", rest.RunTool, "Wake a sandbox.", with((*call).resume))
	add("POST", one+"/connect", "connect", rest.RunTool, "Describe a sandbox, and wake it.", with((*call).resume))
	add("POST", "/v2"+one+"/connect", "connect_v2", rest.RunTool, "Describe a sandbox, and wake it.", with((*call).resume))
	s.templateRoutes(add)
	cannot := func(c *call) error {
		if id := c.r.PathValue("sandbox"); id != "" {
			if _, err := c.find(id); err != nil {
				return err
			}
		}
		return refuse(http.StatusNotImplemented, "this server has no snapshots of memory, forks, volumes, secrets and builds: see docs/e2b.md")
	}
	for i, path := range []string{"POST " + one + "/fork", "POST " + one + "/snapshots", "GET /snapshots", "PUT " + one + "/network", "POST /templates", "POST /volumes", "POST /secrets"} {
		method, path, _ := strings.Cut(path, " ")
		add(method, path, "none_"+strconv.Itoa(i), rest.RunTool, "Refuse: it cannot be had.", cannot)
	}
}

type newSandbox struct {
	Template  string            `json:"templateID"`
	Timeout   *int              `json:"timeout"`
	Metadata  map[string]string `json:"metadata"`
	Env       map[string]string `json:"envVars"`
	AutoPause bool              `json:"autoPause"`
	AutoWake  struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Internet *bool           `json:"allow_internet_access"`
	MCP      json.RawMessage `json:"mcp"`
	IAM      json.RawMessage `json:"iam"`
	Volumes  json.RawMessage `json:"volumeMounts"`
	Network  json.RawMessage `json:"network"`
}

// check refuses what cannot be had.
func (n *newSandbox) check(network string, env map[string]string) error {
	if strings.ContainsAny(n.Template, "/\\") || strings.HasPrefix(n.Template, ".") {
		return refuse(http.StatusBadRequest, "%q is not a template's name", text.Shorten(n.Template, maxQuoted))
	}
	if env == nil {
		return refuse(http.StatusNotFound, "template %q not found: this server has %s, %s and what was built from them", text.Shorten(n.Template, maxQuoted), base, interpreter)
	}
	maps.Copy(env, n.Env)
	n.Env = env
	if n.Internet != nil && !*n.Internet && network != noNetwork {
		return refuse(http.StatusBadRequest, "allow_internet_access cannot be false: this server's network is %s for all", network)
	}
	for name, value := range map[string]json.RawMessage{"mcp": n.MCP, "iam": n.IAM, "volumeMounts": n.Volumes, "network": n.Network} {
		var private map[string]any // ports never are public
		if json.Unmarshal(value, &private) == nil && name == "network" && private["allowPublicTraffic"] == false {
			delete(private, "allowPublicTraffic")
			value = web.Encode(private)
		}
		if plain := string(value); plain != "" && plain != "null" && plain != "[]" && plain != "{}" {
			return refuse(http.StatusBadRequest, "%s cannot be chosen here: see docs/e2b.md", name)
		}
	}
	if len(n.Template)+textBytes(n.Metadata)+textBytes(n.Env) > maxRecord/8 {
		return refuse(http.StatusBadRequest, "the metadata and variables may have %d bytes", maxRecord/8)
	}
	return nil
}

func textBytes(of map[string]string) (bytes int) {
	for name, value := range of {
		bytes += len(name) + len(value)
	}
	return bytes
}

// ends is the end of a time that begins now. The error is the vendor's.
func ends(seconds *int) (time.Time, error) {
	given := defaultTimeout
	if seconds != nil {
		given = *seconds
	}
	if given < 0 || given > maxTimeout {
		return time.Time{}, refuse(http.StatusBadRequest, "the timeout is %d and may be 0 to %d seconds", given, maxTimeout)
	}
	return time.Now().Add(time.Duration(given) * time.Second), nil
}

func (c *call) create() error {
	var wanted newSandbox
	if err := c.decode(&wanted); err != nil {
		return err
	}
	if err := wanted.check(c.Network(), c.template(wanted.Template)); err != nil {
		return err
	}
	end, err := ends(wanted.Timeout)
	if err != nil {
		return err
	}
	id := newID()
	if _, _, err = c.Begin(c.r.Context(), id, sandbox.Python, sandbox.SessionLimits{}, ""); err != nil {
		return err
	}
	b := newBox(record{
		ID: id, Template: wanted.Template, Metadata: wanted.Metadata, Env: wanted.Env, Started: time.Now(), Ends: end,
		AutoPause: wanted.AutoPause, AutoWake: wanted.AutoWake.Enabled,
	})
	b.plain = true
	if err = c.touchContainer(b); err == nil { // whose start is not of the sandbox's time
		end, _ = ends(wanted.Timeout)
		err = c.update(b, func(of *record) { of.Ends = end })
	}
	if err != nil {
		c.forget(b)
		_, _ = c.Sessions().CloseSession(context.WithoutCancel(c.r.Context()), id, false)
		return err
	}
	c.mu.Lock()
	c.sandboxes[id] = b
	c.mu.Unlock()
	c.schedule(b)
	given := make(rest.Arguments)
	given.Set("session_id", id)
	_, _ = c.Call(c.r.Context(), describe, given) // as /v1 answers, so that the audit log has it
	return c.answer(http.StatusCreated, c.describe(b))
}

func newID() string { return "i" + strings.ToLower(rand.Text())[:19] }

func newBox(of record) *box {
	b := &box{record: of, programs: make(map[int]*program), watchers: make(map[string]*watcher), contexts: make(map[string]*codeContext), runEnv: make(map[string][]string)}
	b.add(of.Contexts)
	return b
}

// add adds further contexts, where they are not there. The caller holds b.mu.
func (b *box) add(contexts []codeContext) {
	for _, one := range contexts {
		if b.contexts[one.ID] == nil {
			b.made++
			one.order = len(kernel.Languages) + b.made
			b.contexts[one.ID] = &one
		}
	}
}

// touchContainer starts the container, so that the first command does not wait for it.
func (c *call) touchContainer(b *box) error {
	p, err := c.program(c.r.Context(), b, sandbox.ProgramSpec{SessionID: b.record.ID, Argv: []string{"true"}, NoGrowth: true, NoChange: true, Unlisted: true})
	if err != nil {
		return err
	}
	for range p.Output { // to its end
	}
	return nil
}

// program starts a program. The session may be falling asleep as another one needs its place: then it is woken.
func (c *call) program(ctx context.Context, b *box, spec sandbox.ProgramSpec) (*sandbox.Program, error) {
	b.mu.Lock()
	err := b.mayRun()
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	spec.Caller = c.r.Context()
	p, err := c.Sessions().Program(ctx, spec)
	if err != nil && fault.From(err).Code == fault.SessionBusy {
		p, err = c.Sessions().Program(ctx, spec)
	}
	return p, err
}

// file returns the path of a sandbox's record.
func (c *call) file(id string) string {
	return filepath.Join(state.Folder(c.Sessions().Config().StateDir, id), recordName)
}

// update changes a sandbox's record on the disk, and then here.
func (c *call) update(b *box, change func(of *record)) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	_ = c.reread(b) // a new one has no file
	b.mu.Lock()
	if b.ending {
		b.mu.Unlock()
		return errMissing(b.record.ID)
	}
	changed := b.record
	change(&changed)
	b.mu.Unlock()
	content, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	name := c.file(b.record.ID)
	file, err := os.CreateTemp(filepath.Dir(name), recordName+".*")
	if err == nil {
		_, err = file.Write(content)
		if err = errors.Join(err, file.Close()); err == nil {
			err = os.Rename(file.Name(), name)
		}
		_ = os.Remove(file.Name()) // if it is there still
	}
	if err != nil {
		return refuse(http.StatusInternalServerError, "the sandbox cannot be recorded")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.adopt(changed)
	return nil
}

// reread takes over what another server changed in a record. The error is that there is none any more.
func (c *call) reread(b *box) error {
	var read record
	content, err := os.ReadFile(c.file(b.record.ID))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &read); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.adopt(read)
	return nil
}

// adopt takes over what may change of a record. The caller holds b.mu.
func (b *box) adopt(of record) {
	b.record.Ends, b.record.Paused, b.record.Contexts = of.Ends, of.Paused, of.Contexts
	b.add(of.Contexts)
	for id, one := range b.contexts {
		if one.order >= len(kernel.Languages) && !slices.ContainsFunc(of.Contexts, one.is) {
			delete(b.contexts, id)
			one.stop()
		}
	}
}

func errMissing(id string) error {
	return refuse(http.StatusNotFound, "sandbox %q not found", text.Shorten(id, maxQuoted))
}

// find finds this principal's sandbox.
func (c *call) find(id string) (*box, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := errMissing(id)
	if runs.CheckSessionID(id) != nil {
		return nil, missing
	}
	content, err := os.ReadFile(c.file(id))
	if err != nil {
		delete(c.sandboxes, id)
		return nil, missing
	}
	if b := c.sandboxes[id]; b != nil {
		if b.isOver() {
			return nil, missing
		}
		return b, nil
	}
	var read record
	if err := json.Unmarshal(content, &read); err != nil || read.ID != id {
		return nil, missing
	}
	b := newBox(read)
	if b.isOver() {
		c.schedule(b)
		return nil, missing
	}
	c.sandboxes[id] = b
	c.schedule(b)
	return b, nil
}

// isOver reports whether a sandbox's time is over and it is about to be removed.
func (b *box) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ending || !b.record.AutoPause && !b.record.Paused && !time.Now().Before(b.record.Ends)
}

// mayRun refuses to run anything in a sandbox that was paused or killed since it was found. The caller holds b.mu.
func (b *box) mayRun() error {
	if b.ending || b.record.Paused {
		return errMissing(b.record.ID)
	}
	return nil
}

// forget ends what goes on in a sandbox.
func (c *call) forget(b *box) {
	c.mu.Lock()
	delete(c.sandboxes, b.record.ID)
	c.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	clear(b.watchers)
}

// schedule ends a sandbox when its time ends.
func (c *call) schedule(b *box) { c.scheduleIn(b, 0) }

// scheduleIn is schedule for one that lasts for some time yet.
func (c *call) scheduleIn(b *box, least time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.record.Paused {
		return
	}
	later := &call{server: c.server, Host: c.Host}
	b.timer = time.AfterFunc(max(least, time.Until(b.record.Ends)), func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTime)
		defer cancel()
		b.saving.Lock()
		err := later.reread(b) // another server may have prolonged it
		b.saving.Unlock()
		b.mu.Lock()
		due, keep := !time.Now().Before(b.record.Ends) && !b.record.Paused, b.record.AutoPause
		b.mu.Unlock()
		switch {
		case err != nil:
			later.forget(b)
		case !due:
			later.schedule(b)
		case keep:
			_ = later.sleep(b, func() error { return later.closeDue(ctx, b, true) })
		default:
			if err := later.remove(b, func() error { return later.closeDue(ctx, b, false) }); err != nil { // it is tried again
				b.mu.Lock()
				b.timer.Reset(endTime)
				b.mu.Unlock()
			}
		}
	})
}

// sleep freezes a sandbox, by closing its session.
func (c *call) sleep(b *box, closing func() error) error {
	if err := c.update(b, func(of *record) { of.Paused = true }); err != nil {
		return err
	}
	c.forget(b)
	err := closing()
	if err != nil && c.update(b, func(of *record) { of.Paused = false }) == nil { // it goes on, and its end is tried again
		c.mu.Lock()
		c.sandboxes[b.record.ID] = b
		c.mu.Unlock()
		c.scheduleIn(b, endTime)
	}
	return err
}

// close ends a sandbox's session by the tool, so that the audit log has it.
func (c *call) close(ctx context.Context, b *box, keep bool) error {
	given := make(rest.Arguments)
	given.Set("session_id", b.record.ID)
	given.Set("keep_files", keep)
	_, err := c.Call(ctx, end, given)
	return err
}

// closeDue is close for a sandbox whose time is over, also where a policy has taken the tool away.
func (c *call) closeDue(ctx context.Context, b *box, keep bool) error {
	err := c.close(ctx, b, keep)
	if err != nil {
		_, err = c.Sessions().CloseSession(ctx, b.record.ID, keep)
	}
	return err
}

// Answers.
type (
	made struct {
		Template string  `json:"templateID"`
		ID       string  `json:"sandboxID"`
		Client   string  `json:"clientID"`
		Envd     string  `json:"envdVersion"`
		Token    string  `json:"envdAccessToken"`
		Traffic  string  `json:"trafficAccessToken"`
		Domain   *string `json:"domain"`
	}
	detail struct {
		Template  string            `json:"templateID"`
		Alias     string            `json:"alias"`
		ID        string            `json:"sandboxID"`
		Client    string            `json:"clientID"`
		Started   time.Time         `json:"startedAt"`
		Ends      time.Time         `json:"endAt"`
		State     string            `json:"state"`
		CPUs      int               `json:"cpuCount"`
		MemoryMB  int64             `json:"memoryMB"`
		DiskMB    int64             `json:"diskSizeMB"`
		Metadata  map[string]string `json:"metadata,omitempty"`
		Envd      string            `json:"envdVersion"`
		Internet  bool              `json:"allowInternetAccess"`
		Lifecycle lifecycle         `json:"lifecycle"`
	}
	lifecycle struct {
		AutoResume bool   `json:"autoResume"`
		OnTimeout  string `json:"onTimeout"`
	}
)

const (
	clientID = "local"                           // which the SDKs ignore
	noHosts  = "ports-cannot-be-reached.invalid" // where the SDKs make hosts of ports; without it they are the vendor's
)

func (c *call) describe(b *box) made {
	id := b.record.ID
	token := c.seal.Token(id, c.r.Header.Get("Authorization"))
	domain := noHosts
	return made{Template: b.record.Template, ID: id, Client: clientID, Envd: envdVersion, Token: token, Traffic: token, Domain: &domain}
}

func (c *call) detail(b *box) detail {
	b.mu.Lock()
	defer b.mu.Unlock()
	config, of := c.Sessions().Config(), &b.record
	d := detail{
		Template: of.Template, Alias: of.Template, ID: of.ID, Client: clientID, Started: of.Started.UTC(), Ends: of.Ends.UTC(), State: running, Envd: envdVersion,
		Internet: c.Network() != noNetwork, CPUs: max(1, int(config.Limits.CPUs)), MemoryMB: config.Limits.MemoryBytes >> 20, DiskMB: config.VolumeBytes >> 20, Metadata: of.Metadata,
		Lifecycle: lifecycle{of.AutoWake, "kill"},
	}
	if of.Paused {
		d.State = paused
	}
	if of.AutoPause {
		d.Lifecycle.OnTimeout = "pause"
	}
	return d
}

func (c *call) get(b *box) error { return c.answer(http.StatusOK, c.detail(b)) }

// each finds all this principal's sandboxes.
func (c *call) each() iter.Seq[*box] {
	return func(yield func(*box) bool) {
		names, _ := filepath.Glob(c.file("*"))
		for _, name := range names {
			if b, err := c.find(filepath.Base(filepath.Dir(name))); err == nil && !yield(b) {
				return
			}
		}
	}
}

// list lists sandboxes, the newest first; the first version's running ones alone.
func (c *call) list() error {
	query := c.r.URL.Query()
	wanted, err := url.ParseQuery(query.Get("metadata"))
	if err != nil {
		return refuse(http.StatusBadRequest, "metadata cannot be read")
	}
	after, err := time.Parse(time.RFC3339, cmp.Or(query.Get("startedAfter"), time.Time{}.Format(time.RFC3339)))
	if err != nil {
		return refuse(http.StatusBadRequest, "startedAfter is no time: %s", text.Shorten(query.Get("startedAfter"), 40))
	}
	states := strings.Split(strings.Join(query["state"], ","), ",")
	if c.r.URL.Path == prefix+"/sandboxes" {
		states = []string{running}
	}
	all := []detail{}
	for b := range c.each() {
		d := c.detail(b)
		fits := (states[0] == "" || slices.Contains(states, d.State)) && !d.Started.Before(after)
		for name, values := range wanted {
			fits = fits && d.Metadata[name] == values[0]
		}
		if template := query.Get("template"); fits && (template == "" || template == d.Template) {
			all = append(all, d)
		}
	}
	oldest := query.Get("order") == "asc"
	order := func(a, b detail) int {
		order := cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID))
		if oldest {
			order = -order
		}
		return order
	}
	slices.SortFunc(all, order)
	if token := query.Get("nextToken"); token != "" { // of a sandbox that may be gone meanwhile
		var last detail
		when, id, _ := strings.Cut(token, "_")
		if last.ID = id; last.Started.UnmarshalText([]byte(when)) != nil {
			return refuse(http.StatusBadRequest, "nextToken is none of this server's: %s", text.Shorten(token, maxQuoted))
		}
		all = slices.DeleteFunc(all, func(d detail) bool { return order(d, last) <= 0 })
	}
	if most, err := strconv.Atoi(query.Get("limit")); err == nil && most < 1 {
		return refuse(http.StatusBadRequest, "the limit is %d and must be above 0", most)
	} else if most = min(cmp.Or(most, listed), listed); len(all) > most {
		all = all[:most]
		c.w.Header().Set("X-Next-Token", all[most-1].Started.Format(time.RFC3339Nano)+"_"+all[most-1].ID)
	}
	answer := web.NewList(c.w) // the only one in memory while the client does not read
	for _, d := range all {
		if answer.Add(d) != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	_ = answer.End()
	return nil
}

func (c *call) kill(b *box) error {
	if err := c.remove(b, func() error { return c.close(c.r.Context(), b, false) }); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

// remove removes a sandbox, whose session end ends. It is not found from the beginning on, unless that fails.
func (c *call) remove(b *box, end func() error) error {
	mark := func(ending bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ending = ending
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	mark(true)
	if err := end(); err != nil && fault.From(err).Code != fault.SessionNotFound {
		mark(false)
		return err
	}
	_ = os.Remove(c.file(b.record.ID))
	c.forget(b)
	return nil
}

type newTime struct {
	Timeout  *int `json:"timeout"`
	Duration *int `json:"duration"`
}

func (c *call) setTimeout(b *box) error {
	if err := c.prolong(b, false); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

// prolong gives a sandbox the request's time; only: if it ends later so.
func (c *call) prolong(b *box, only bool) error {
	var wanted newTime
	if err := c.decode(&wanted); err != nil {
		return err
	}
	end, err := ends(cmp.Or(wanted.Timeout, wanted.Duration))
	if err != nil {
		return err
	}
	err = c.update(b, func(of *record) {
		if !only || end.After(of.Ends) || of.Paused {
			of.Ends = end
		}
		of.Paused = of.Paused && !only
	})
	c.schedule(b)
	return err
}

func (c *call) pause(b *box) error {
	b.mu.Lock()
	already := b.record.Paused
	b.mu.Unlock()
	if already {
		return refuse(http.StatusConflict, "sandbox %q is already paused", b.record.ID)
	}
	if err := c.sleep(b, func() error { return c.close(c.r.Context(), b, true) }); err != nil {
		return err
	}
	return c.answer(http.StatusNoContent, nil)
}

// resume wakes a sandbox. The vendor's connect answers 200 if it runs.
func (c *call) resume(b *box) error {
	b.mu.Lock()
	was := b.record.Paused
	b.mu.Unlock()
	connects := strings.HasSuffix(c.r.URL.Path, "/connect")
	if !was && !connects {
		return refuse(http.StatusConflict, "sandbox %q is already running", b.record.ID)
	}
	if err := c.prolong(b, true); err != nil {
		return err
	}
	if err := c.touchContainer(b); err != nil {
		return err
	}
	if !was {
		return c.answer(http.StatusOK, c.describe(b))
	}
	return c.answer(http.StatusCreated, c.describe(b))
}

type metric struct {
	Time     time.Time `json:"timestamp"`
	Unix     int64     `json:"timestampUnix"`
	CPUs     int       `json:"cpuCount"`
	MemTotal int64     `json:"memTotal"`
	usage
}

type usage struct {
	CPUUsed   float64 `json:"cpuUsedPct"`
	MemUsed   int64   `json:"memUsed"`
	MemCache  int64   `json:"memCache"`
	DiskUsed  int64   `json:"diskUsed"`
	DiskTotal int64   `json:"diskTotal"`
}

// within reports whether a time is between a query's start and end.
func within(query url.Values, now int64) bool {
	from, err := strconv.ParseInt(query.Get("start"), 10, 64)
	to, err2 := strconv.ParseInt(query.Get("end"), 10, 64)
	return (err != nil || now >= from) && (err2 != nil || now <= to)
}

// metrics measures a running sandbox once: there is no history.
func (c *call) metrics(b *box) error {
	found := []metric{}
	now := time.Now()
	if d := c.detail(b); d.State == running && within(c.r.URL.Query(), now.Unix()) {
		m := metric{Time: now.UTC(), Unix: now.Unix(), CPUs: d.CPUs, MemTotal: d.MemoryMB << 20}
		if err := c.operate(b, "metrics", object{"path": "."}, nil, func(line []byte) error { return json.Unmarshal(line, &m.usage) }); err != nil {
			return err
		}
		found = append(found, m)
	}
	return c.answer(http.StatusOK, found)
}
