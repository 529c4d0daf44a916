package door

import (
	"net"

	"golang.org/x/sys/windows"
)

// errRefused is the error of a connection to a socket that nobody listens on.
const errRefused = windows.WSAECONNREFUSED

// isOwn is true: the folder is in the user's profile, which Windows protects.
func isOwn(net.Conn) bool { return true }
