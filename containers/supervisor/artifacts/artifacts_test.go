//go:build linux

package artifacts
