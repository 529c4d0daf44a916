//go:build nokubernetes

// Package kubernetes is left out of this build.
package kubernetes
