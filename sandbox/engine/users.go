package engine

import "hash/fnv"

// Users are the numbers that sessions have their users from. None, and someone else chooses, where Count is 0.
type Users struct{ First, Count int64 }

// HostUsers are numbers that neither distributions nor systemd nor directory services give to anybody (systemd.io/UIDS-GIDS).
var HostUsers = Users{First: 1_900_000_000, Count: 100_000_000}

// Of returns the number of the user, and of the group, of a volume. It depends on the name alone, so that a volume that was
// removed comes back with the same; two volumes may have the same, which is likely where there are few.
func (u Users) Of(volume string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(volume))
	return u.First + int64(h.Sum64()%uint64(u.Count))
}
