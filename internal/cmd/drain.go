package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

const (
	// heardWithin is the time in which a server must answer.
	heardWithin = 5 * time.Second
	// lookEvery is the interval between looks at a draining server.
	lookEvery = 200 * time.Millisecond
)

// drainOptions are the flags of `drain`.
type drainOptions struct {
	wait, clients, undo bool
	timeout, atLeast    time.Duration
}

// drainCommand returns the command `drain`.
func drainCommand(settings *server.Program) *cobra.Command {
	var o drainOptions
	cmd := &cobra.Command{
		Use: "drain [SERVER]", Short: "Have a server take no new sessions, before it is stopped or replaced",
		Long: `drain tells a server over HTTP of this --state-dir to take no new sessions,
which are refused with server_draining. Sessions that there are go on, those
that sleep wake, and /readyz says 503. Another server of the same state folder
that is asked for a named session gets it, with its variables, as soon as
nothing runs in it. What ends with the server are sessions without a name.

SERVER is the address that it serves, or the number of its process; it may be
left out where there is one alone. --wait returns when nothing runs there any
more, and fails where that takes longer than --timeout.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return Usage(fmt.Errorf("drain: %d arguments are given; usage: code-sandbox-mcp %s", len(args), cmd.Use))
			case o.undo && o.wait:
				return Usage(errors.New("drain: --undo and --wait exclude each other; leave one of the two out"))
			case o.clients && !o.wait:
				return Usage(errors.New("drain: --clients says what --wait waits for; give --wait as well"))
			case o.atLeast > 0 && !o.wait:
				return Usage(errors.New("drain: --at-least says how long --wait waits; give --wait as well"))
			case o.timeout <= 0:
				return Usage(fmt.Errorf("drain: --timeout %v is no time that can be waited for; give one such as 5m", o.timeout))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return Report(drain(ctx, setting.StateFolder(settings.StateDir), strings.Join(args, ""), o))
		},
	}
	cmd.Flags().BoolVar(&o.wait, "wait", false, "return when nothing runs in its sessions")
	cmd.Flags().BoolVar(&o.clients, "clients", false, "with --wait: also when the clients are gone whose sessions have no name")
	cmd.Flags().BoolVar(&o.undo, "undo", false, "have it take new sessions again")
	cmd.Flags().DurationVar(&o.atLeast, "at-least", 0, "with --wait: return no sooner, so that a load balancer learns of it before the server ends")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long --wait waits")
	return cmd
}

func drain(ctx context.Context, stateDir, name string, o drainOptions) error {
	s, err := findServer(ctx, stateDir, name)
	if err != nil {
		return err
	}
	hearing, stop := context.WithTimeout(ctx, heardWithin)
	defer stop()
	switch err := s.Drain(hearing, !o.undo); {
	case door.HasEnded(err):
		fmt.Printf("the server at %s has ended\n", s.Address)
		return nil
	case err != nil:
		return fault.New(fault.ExecutionFailed, "Look whether it is stopped (SIGSTOP), or the machine too busy; then try again.",
			"The server at %s (process %d) has not answered in %v.", s.Address, s.PID, heardWithin).Because(err)
	case o.undo:
		fmt.Printf("%s takes new sessions again\n", s.Address)
		return nil
	}
	fmt.Printf("%s takes no new sessions: %s\n", s.Address, left(&s.Card))
	if !o.wait {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	earliest := time.Now().Add(o.atLeast)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for s.Draining && (s.Busy > 0 || o.clients && s.Clients > 0 || time.Now().Before(earliest)) {
		select {
		case <-tick.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fault.New(fault.SessionBusy, "Wait again, or stop the server: it then interrupts what runs, and named sessions keep their variables.",
				"After %v there is still something to do at %s: %s.", o.timeout, s.Address, left(&s.Card))
		}
		if door.HasEnded(s.Look(waiting)) {
			fmt.Printf("the server at %s has ended\n", s.Address)
			return nil
		}
	}
	if !s.Draining {
		return fault.New(fault.ExecutionFailed, "Ask who has called drain --undo, and begin again.", "The server at %s takes new sessions again.", s.Address)
	}
	fmt.Printf("nothing runs at %s: %s\n", s.Address, left(&s.Card))
	return nil
}

// left describes the sessions and runs left on a draining server.
func left(s *door.Card) string {
	text := fmt.Sprintf("%d of its %d sessions are busy", s.Busy, s.Sessions)
	if s.Clients > 0 {
		text += fmt.Sprintf(", and %d without a name would end with it", s.Clients)
	}
	return text
}

// findServer returns the server of this name.
func findServer(ctx context.Context, stateDir, name string) (*door.Server, error) {
	list, err := door.List(ctx, stateDir, false)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s door.Server) bool { return s.Address == "" })
	found := slices.DeleteFunc(slices.Clone(list), func(s door.Server) bool {
		return name != "" && name != s.Address && name != s.ID && name != strconv.Itoa(s.PID)
	})
	if len(found) == 1 {
		return &found[0], nil
	}
	var lines strings.Builder
	for _, s := range list {
		fmt.Fprintf(&lines, "\n%s  %s  process %d, since %s, version %s", s.ID, s.Address, s.PID, s.Began.Local().Format(time.DateTime), s.Version)
	}
	switch {
	case len(list) == 0:
		return nil, fault.New(fault.NotFound, "Give the --state-dir of the server; one over stdio has nothing to drain.", "No server over HTTP runs with the state folder %s.", stateDir)
	case len(found) == 0:
		return nil, fault.New(fault.NotFound, "Name one of these, by what is first in its line:"+lines.String(), "There is no server %q.", name)
	}
	return nil, fault.New(fault.InvalidArgument, "Name one of these, by what is first in its line:"+lines.String(), "%d servers could be meant.", len(found))
}
