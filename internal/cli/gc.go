package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// lateRequest is how long Podman may go on with a request whose client has gone.
const lateRequest = 10 * time.Second

// gcTimeout bounds a sweep; an engine that needs longer is broken.
const gcTimeout = 2 * time.Minute

func gcCommand(settings *Settings) *cobra.Command {
	var afterParent bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove what servers that no longer live left behind", Args: noArgs,
		Long: `gc removes the containers and files of sessions that no live server has open:
all of an unnamed session, and of a named one the containers, and the files once
nobody has used it for the idle time. Servers do the same after their first answer,
so this is only needed where no server will be started again.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !afterParent {
				return gc(cmd.Context(), settings)
			}
			_, _ = io.Copy(io.Discard, os.Stdin) // it ends when our parent does
			first := gc(cmd.Context(), settings)
			// Podman may still be at work on our parent's last request, and make something yet.
			time.Sleep(lateRequest)
			return errors.Join(first, gc(cmd.Context(), settings))
		},
	}
	cmd.Flags().BoolVar(&afterParent, afterParentFlag, false, "")
	_ = cmd.Flags().MarkHidden(afterParentFlag)
	return cmd
}

const afterParentFlag = "after-parent"

func gc(ctx context.Context, settings *Settings) error {
	ctx, cancel := context.WithTimeout(ctx, gcTimeout)
	defer cancel()
	log, err := settings.logger()
	if err != nil {
		return err
	}
	engine := settings.engine(log)
	defer func() { _ = engine.Close() }()
	dir := settings.sessionDir()
	swept, err := sandbox.Sweep(ctx, engine, dir, hostLabel(dir), time.Duration(settings.IdleTimeout))
	for _, id := range swept {
		fmt.Println("removed what was left of session", id)
	}
	if err == nil && len(swept) == 0 {
		fmt.Println("nothing to remove")
	}
	return explain(err)
}

// leaveGC starts a gc that waits for our own end and then removes what there was no time for. It is in
// a session of its own, so what ends us and our children does not end it.
func leaveGC() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "serve" })
	cmd := exec.Command(self, append([]string{"gc", "--" + afterParentFlag}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The write end stays open in us alone, and closes when we end.
	if _, err := cmd.StdinPipe(); err != nil {
		return err
	}
	return cmd.Start()
}
