//go:build !fetchtest

package netguard

// Dial returns how the ports are reached: no setting changes it.
func Dial(ports ...uint16) DialFunc { return Dialer(ports...).DialContext }
