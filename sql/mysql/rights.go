package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// grant matches a line of SHOW GRANTS: the privileges, and their object.
var grant = regexp.MustCompile(`^GRANT (.+) ON (.+?) TO `)

// harmless are the rights with which nothing can be changed. PROCESS shows other sessions' statements.
var harmless = []string{"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "REFERENCES", "PROCESS", "REPLICATION CLIENT", "BINLOG MONITOR", "SLAVE MONITOR"}

var columnList = regexp.MustCompile(`\s*\([^)]*\)`)

// Rights implements sql.Database. A login that can do nothing but read makes everything else here a second lock.
func (d *Database) Rights(ctx context.Context) ([]sql.Finding, error) {
	var found []sql.Finding
	err := d.list(ctx, "SHOW GRANTS", nil, func(scan func(...any) error) error {
		var line string
		if err := scan(&line); err != nil {
			return err
		}
		if f, ok := findingOf(line); ok {
			found = append(found, f)
		}
		return nil
	})
	return found, err
}

func findingOf(line string) (sql.Finding, bool) {
	parts := grant.FindStringSubmatch(line)
	if parts == nil {
		return sql.Finding{}, false // a role, with its rights in lines of their own
	}
	var more []string
	for _, right := range strings.Split(columnList.ReplaceAllString(parts[1], ""), ",") {
		if right = strings.TrimSpace(right); !slices.Contains(harmless, right) {
			more = append(more, right)
		}
	}
	switch {
	case len(more) == 0 || parts[1] == "PROXY":
		return sql.Finding{}, false
	case slices.Contains(more, "ALL PRIVILEGES"):
		return sql.Finding{What: "may do everything on " + checked.Excerpt(parts[2]), Fix: safeLogin}, true
	}
	return sql.Finding{What: fmt.Sprintf("has %s on %s", checked.Excerpt(strings.Join(more, ", ")), checked.Excerpt(parts[2])), Fix: safeLogin}, true
}

// safeLogin makes a login that reads one database.
const safeLogin = `CREATE USER sandbox_reader IDENTIFIED BY '…';
GRANT SELECT, SHOW VIEW ON name_of_database.* TO sandbox_reader;`
