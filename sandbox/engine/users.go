package engine

import "hash/fnv"

// Users are the user numbers for sessions. Count 0: none, and someone else chooses.
type Users struct{ First, Count int64 }

// HostUsers are numbers that neither distributions nor systemd nor directory services assign (systemd.io/UIDS-GIDS).
var HostUsers = Users{First: 1_900_000_000, Count: 100_000_000}

// Of returns the number of a volume's user and group. It depends on the name alone, so that a removed volume comes back with the
// same; two volumes may share one, which is likely if there are few.
func (u Users) Of(volume string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(volume))
	return u.First + int64(h.Sum64()%uint64(u.Count))
}
