package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const suite = "trixie"

// extractHook has dpkg leave out pages for readers, but for licences, and translations, and a sync for every file, which only a system that
// must survive a power cut needs. Mmdebstrap's own --dpkgopt would have it filter each package by a program in Python.
const extractHook = `cd "$1" && printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/man/*' 'path-exclude=/usr/share/info/*' ` +
	`'path-exclude=/usr/share/locale/*' path-include=/usr/share/locale/locale.alias 'path-exclude=/usr/share/doc/*' 'path-include=/usr/share/doc/*/copyright' > etc/dpkg/dpkg.cfg.d/01slim && ` +
	`rm -rf usr/share/man/* usr/share/info/* && find usr/share/locale usr/share/doc ! -type d ! -name locale.alias ! -name copyright -delete`

// bootstrapHooks give the new system the other properties of Debian's own slim image: nothing of this machine in it, and apt without extras.
var bootstrapHooks = []string{
	`rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/machine-id "$1"/etc/resolv.conf; : > "$1"/etc/machine-id`,
	`echo localhost > "$1"/etc/hostname`,
	`printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\n' > "$1"/etc/apt/apt.conf.d/01slim`,
	`rm -rf "$1"/var/cache/ldconfig/aux-cache "$1"/var/log/*.log "$1"/var/log/apt`,
}

// bootstrapArgs is the command line of mmdebstrap but for the settings of this machine's
// apt, which serve to reach the mirror and stay out of the image.
func bootstrapArgs(apt []string, tar string) []string {
	args := []string{
		"--variant=minbase", "--include=ca-certificates", "--format=tar", "--skip=output/dev,check/qemu",
		"--extract-hook=" + extractHook,
	}
	for _, setting := range apt {
		args = append(args, "--aptopt="+setting)
	}
	for _, hook := range bootstrapHooks {
		args = append(args, "--customize-hook="+hook)
	}
	return append(args, suite, tar)
}

// bootstrap makes the image madeBase from Debian's mirror, with mmdebstrap on this
// machine, and hands it to the engine. As an ordinary user mmdebstrap needs subuids,
// as rootless Podman does.
func (h host) bootstrap(ctx context.Context, log *log) error {
	path, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is not installed")
	}
	info, err := libpod.Info(ctx)
	if err != nil {
		return fmt.Errorf("ask the engine what machine it is on: %w", err)
	}
	if info.Host.OS != h.os || info.Host.Arch != h.arch {
		return fmt.Errorf("the engine is on %s/%s and this machine is %s/%s", info.Host.OS, info.Host.Arch, h.os, h.arch)
	}
	tar, err := os.CreateTemp("", "code-sandbox-mcp-base-*.tar")
	if err != nil {
		return err
	}
	defer func() {
		_ = tar.Close()
		_ = os.Remove(tar.Name())
	}()

	command := exec.CommandContext(ctx, path, bootstrapArgs(h.apt, tar.Name())...)
	command.Stdout, command.Stderr = log, log
	// It ends its children and removes its files.
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil {
		return fmt.Errorf("mmdebstrap: %w", cause(ctx, err))
	}
	// mmdebstrap may replace our file with a new one.
	made, err := os.Open(tar.Name())
	if err != nil {
		return err
	}
	defer func() { _ = made.Close() }()
	err = libpod.ImportImage(ctx, made, madeBase, []string{
		`CMD ["bash"]`,
		"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	})
	if err != nil {
		return fmt.Errorf("import the base image: %w", err)
	}
	return nil
}
