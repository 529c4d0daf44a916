// Package clients tests install with the clients that npm has: each is configured by it, and then asked for its servers.
// There is nothing to import. The tests need Node.js with npm, and neither Podman nor a login anywhere.
package clients
