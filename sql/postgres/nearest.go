package postgres

import (
	"slices"
	"strings"
)

// nearest returns up to three of the known names that are most like name: that differ in few letters, or of which one contains the other. If
// name has no schema, the schemas of the known do not count.
func nearest(name string, known []string) []string {
	type near struct {
		name     string
		distance int
	}
	wanted := strings.ToLower(excerpt(name))
	var found []near
	for _, k := range known {
		candidate := strings.ToLower(excerpt(k))
		if _, table, dotted := strings.Cut(candidate, "."); dotted && !strings.Contains(wanted, ".") {
			candidate = table
		}
		distance := edits(wanted, candidate)
		if strings.Contains(candidate, wanted) || strings.Contains(wanted, candidate) {
			distance = min(distance, 2)
		}
		if distance <= max(2, len(wanted)/3) {
			found = append(found, near{k, distance})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var names []string
	for _, n := range found[:min(3, len(found))] {
		names = append(names, n.name)
	}
	return names
}

// edits returns the edit distance of a and b: letters inserted, removed or changed.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
