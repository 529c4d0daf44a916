// Several servers that work as one: what a replica needs of the settings, and who serves a principal.

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/replicas"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Variables that a pod has of itself, by its manifest.
const (
	podNameVariable = "POD_NAME"
	podIPVariable   = "POD_IP"
)

// joinTime is what joining the other replicas may take.
const joinTime = 10 * time.Second

// yieldEvery is how often a replica looks whether it has sessions that others are to have.
const yieldEvery = 500 * time.Millisecond

// placer has a principal's request served, here or by the replica that has the principal's sessions, and reports whether one did.
type placer = func(w http.ResponseWriter, r *http.Request, p principal.Principal, here http.Handler) bool

// checkReplicas refuses settings that replicas cannot have in common.
func (s *Settings) checkReplicas() error {
	if s.Replicas == "" {
		return nil
	}
	var found problems
	found.wrong(!s.OnKubernetes(), "--replicas %s has no effect without --engine %s, whose Leases say which replica has a session", s.Replicas, engineKubernetes)
	network, _, err := s.HTTP.listenAddress()
	found.wrong(s.HTTP.Address != "" && err == nil && network != "tcp", "--replicas %s: other replicas do not reach %s; name an address and a port with --http", s.Replicas, s.HTTP.Address)
	found.wrong(s.HTTP.Address != "" && !s.HTTP.NoAuth && s.HTTP.TokenFile == "" && s.HTTP.tokenVariable == "", "--replicas %s needs one token for all: set %s or --http-token-file", s.Replicas, tokenVariable)
	found.wrong(s.Links.Address != "", "--files-http and --replicas exclude each other: what comes there is not handed on to the replica that has the file; without it links are served with --http")
	found.wrong(s.OAuth.On, "--oauth and --replicas exclude each other: whom OAuth has let in is known on one machine; --oidc-issuer lets people in everywhere")
	found.wrong(len(s.Principals.Proxies) > 0, "--trusted-proxy and --replicas exclude each other: a request may reach a replica by another one, whose address says nothing of the proxy; a secret alone says who sets --trusted-header, in %s", headerSecretVariable)
	return errors.Join(found...)
}

// join makes this process one of the replicas; nil: there are none. A command has no address.
func (s *Settings) join(ctx context.Context, address string, log *slog.Logger) (*replicas.Replicas, error) {
	if s.Replicas == "" || !hasKubernetes { // and the linker leaves it out
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	leases, err := s.leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("--replicas: %w", err)
	}
	name := os.Getenv(podNameVariable)
	if name == "" {
		name, _ = os.Hostname()
	}
	r, err := replicas.Join(ctx, replicas.Options{
		Leases: leases, Group: s.Replicas, Name: replicas.NewName(name), Address: address, StateDir: s.SessionDir(), Logger: log,
		Counts: func(tenant, id string) bool { return tenant != "" || !sandbox.IsSpare(id) },
		Lost: func() {
			time.Sleep(lostGrace) // for the log
			os.Exit(1)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--replicas: %w", err)
	}
	return r, nil
}

// lostGrace is how long the log has to say why a process ends at once. Nothing is done for a session meanwhile.
const lostGrace = 50 * time.Millisecond

// Visit has a command take its sessions where replicas do, until leave is called.
func (s *Settings) Visit(ctx context.Context, log *slog.Logger) (leave func(), err error) {
	r, err := s.join(ctx, "", log)
	if r == nil || !hasKubernetes {
		return func() {}, err
	}
	return func() { r.Leave(context.WithoutCancel(ctx)) }, nil
}

// replicaAddress is where other replicas reach this one.
func (w *web) replicaAddress() string {
	host, port, _ := net.SplitHostPort(w.listener.Addr().String())
	if ip := os.Getenv(podIPVariable); ip != "" {
		host = ip
	}
	return net.JoinHostPort(host, port)
}

// joinReplicas joins the others, and has requests served where their principals' sessions are.
func (r *running) joinReplicas(ctx context.Context) error {
	if r.web == nil || !hasKubernetes {
		return nil
	}
	var err error
	if r.replicas, err = r.settings.join(ctx, r.web.replicaAddress(), r.log); r.replicas == nil {
		return err
	}
	r.shared.keeper.ready, r.shared.keeper.args = r.replicas.Ready, nil
	hands := r.replicas.NewHands(r.web.options.Certificate)
	r.place = func(w http.ResponseWriter, q *http.Request, p principal.Principal, here http.Handler) bool {
		if q.URL.Path == telemetry.MetricsPath { // each has its own
			here.ServeHTTP(w, q)
			return true
		}
		return hands.Serve(w, q, p.Key(), here)
	}
	r.placeKey = func(w http.ResponseWriter, q *http.Request, key string, here http.HandlerFunc) {
		if !hands.Serve(w, q, key, here) {
			http.Error(w, "no replica can serve you at the moment; try again", http.StatusServiceUnavailable)
		}
	}
	return nil
}

// received wraps the server's handler, and distinguishes requests of other replicas from clients'.
func (r *running) received(around func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	if r.replicas == nil || !hasKubernetes {
		return around
	}
	return func(next http.Handler) http.Handler { return r.replicas.Receive(around(next)) }
}

// withdrawTime is how long others have to see that a replica serves nobody any longer.
const withdrawTime = 100 * time.Millisecond

// serving returns a context that ends when ctx has, and the other replicas hand nothing on to this one any longer.
func (r *running) serving(ctx context.Context) context.Context {
	if r.replicas == nil {
		return ctx
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		r.replicas.Withdraw()
		time.Sleep(withdrawTime)
		end()
	})
	return serving
}

// yield lets go of sessions that other replicas are to have, until ctx ends.
func (r *running) yield(ctx context.Context) {
	if r.replicas == nil || !hasKubernetes {
		return
	}
	tick := time.NewTicker(yieldEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		drains := r.drainer.draining.Load()
		r.replicas.Drain(drains)
		for _, t := range r.tenants.all() {
			if drains || !r.replicas.IsPlaced(t.of.Key()) {
				t.manager.Yield()
			}
		}
	}
}

// leaveReplicas lets others have at once what this replica has not ended.
func (r *running) leaveReplicas(ctx context.Context) {
	if r.replicas != nil && hasKubernetes {
		r.replicas.Leave(ctx)
	}
}
