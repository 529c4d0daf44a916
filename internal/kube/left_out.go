//go:build nokubernetes

// Package kube is left out of this build.
package kube
