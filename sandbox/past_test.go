package sandbox

import "testing"

func TestPathsOfVersions(t *testing.T) {
	for path, want := range map[string][2]string{
		"f@run-abc": {"f", "run-abc"}, "a@b/f.x@restore-abc": {"a@b/f.x", "restore-abc"}, "f@run-a@run-b": {"f@run-a", "run-b"},
		"f": {"f", ""}, "f@": {"f@", ""}, "@run-abc": {"@run-abc", ""}, "f@example.com": {"f@example.com", ""}, "f@run-a/g": {"f@run-a/g", ""},
	} {
		if name, run := splitVersion(path); name != want[0] || run != want[1] {
			t.Errorf("%q is %q and %q", path, name, run)
		}
	}
}
