//go:build unix

package podman

import (
	"slices"
	"testing"
)

func TestUsersOfSessions(t *testing.T) {
	for _, test := range []struct {
		name        string
		space       idSpace
		first, last int64
		namespace   bool
	}{
		{"root's Podman", idSpace{}, 1_900_000_000, 1_999_999_999, false},
		{"an ordinary user's", idSpace{rootless: true, count: 65537}, 10_000, 59_999, true},
		{"just enough ids", idSpace{rootless: true, count: 65536}, 10_000, 59_999, true},
		{"too few ids", idSpace{rootless: true, count: 65535}, 1000, 1000, false},
		{"one id", idSpace{rootless: true, count: 1}, 1000, 1000, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen []int64
			for _, volume := range []string{"", "csm-abcdef-one", "csm-abcdef-two", "csm-abcdef-three"} {
				user := test.space.userOf(volume)
				if user < test.first || user > test.last {
					t.Errorf("%q is for user %d", volume, user)
				}
				if again := test.space.userOf(volume); again != user {
					t.Errorf("%q is for %d, and then for %d", volume, user, again)
				}
				seen = append(seen, user)
			}
			slices.Sort(seen)
			if len(slices.Compact(seen)) < 4 && test.first != test.last {
				t.Error("two of four sessions share a user")
			}
			ns, mappings := test.space.userNamespace()
			if got := ns.IsPrivate() && mappings != nil; got != test.namespace {
				t.Errorf("a user namespace: %v", got)
			}
			if test.namespace && test.last >= int64(mappings.UIDMap[0].Size) {
				t.Errorf("users up to %d are outside of a namespace of %d", test.last, mappings.UIDMap[0].Size)
			}
		})
	}
}

func TestSubordinateIDs(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"me:100000:65536", 65536},
		{"1000:100000:65536\n", 65536},
		{"you:1:5\nme:1:32768\n  me:100000:32768  \nme:1:2:3\nme:1:-5\nme:1:many\n#me:1:7", 65536},
		{"me2:1:5\n10001:1:5", 0},
	} {
		if got := Subordinate(test.text, "me", 1000); got != test.want {
			t.Errorf("%q gives %d ids, want %d", test.text, got, test.want)
		}
	}
}
