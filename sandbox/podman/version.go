package podman

import (
	"errors"
	"regexp"

	"github.com/blang/semver/v4"
)

// oldest is the version of Podman that is needed. Its API goes by the same numbers.
var oldest = semver.MustParse("4.3.0")

// errNotPodman is for a service that answers whatever it is asked.
var errNotPodman = errors.New("what answers there is not Podman")

// checkVersion judges the version that a service reports, which is zero where it reports none.
func checkVersion(v semver.Version) error {
	if v.EQ(semver.Version{}) {
		return errNotPodman
	}
	if v.LT(oldest) {
		return tooOld(v.String(), nil)
	}
	return nil
}

// What the bindings say of versions that they do not speak to.
var refused = regexp.MustCompile(`server API version is too old.* server "([^"]+)"`)

// unlessTooOld describes the bindings' refusal of an old service, and leaves other errors as they are.
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
