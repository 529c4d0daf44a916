package service

import (
	"errors"
	"regexp"

	"github.com/blang/semver/v4"
)

// oldest is the oldest supported version of Podman. Its API uses the same numbers.
var oldest = semver.MustParse("4.3.0")

// errNotPodman is for a service that answers any request.
var errNotPodman = errors.New("what answers there is not Podman")

// checkVersion judges a service's reported version, which is zero if it reports none.
func checkVersion(v semver.Version) error {
	if v.EQ(semver.Version{}) {
		return errNotPodman
	}
	if v.LT(oldest) {
		return tooOld(v.String(), nil)
	}
	return nil
}

// The bindings' message on versions that they do not support.
var refused = regexp.MustCompile(`server API version is too old.* server "([^"]+)"`)

// unlessTooOld describes the bindings' refusal of an old service, and returns other errors unchanged.
func unlessTooOld(err error) error {
	if match := refused.FindStringSubmatch(err.Error()); match != nil {
		return tooOld(match[1], err)
	}
	return err
}

func tooOld(version string, err error) *UnavailableError {
	return &UnavailableError{
		Reason: "Podman " + version + " is too old",
		Fix:    "install Podman 4.3 or newer (https://podman.io/docs/installation)",
		Err:    err,
	}
}
