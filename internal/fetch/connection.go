//go:build !fetchtest

package fetch

// connection is how addresses are reached: no setting changes it.
func connection() dial { return guarded().DialContext }
