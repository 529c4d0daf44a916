package sqlserver

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql/internal/checked"
)

// rightsStatement asks for one row: the login's name, then 1 for each right or membership in the columns.
const rightsStatement = `
SELECT USER_NAME(),
	ISNULL(IS_SRVROLEMEMBER('sysadmin'), 0), ISNULL(HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER'), 0),
	ISNULL(IS_ROLEMEMBER('db_owner'), 0), ISNULL(IS_ROLEMEMBER('db_datawriter'), 0), ISNULL(IS_ROLEMEMBER('db_ddladmin'), 0),
	ISNULL(IS_ROLEMEMBER('db_securityadmin'), 0), ISNULL(IS_ROLEMEMBER('db_accessadmin'), 0), ISNULL(IS_ROLEMEMBER('db_backupoperator'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'INSERT'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UPDATE'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'DELETE'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'ALTER'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'EXECUTE'), 0),
	(SELECT COUNT(*) FROM sys.objects AS o WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
		AND 1 IN (HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'DELETE'))),
	@@VERSION`

// rights is a row of rightsStatement.
type rights struct {
	user, version                                                           string
	sysadmin, control                                                       int
	owner, writer, ddl, security, access, backup                            int
	insertRight, updateRight, deleteRight, alterRight, executeRight, tables int
}

// Rights implements sql.Database. A login that can do nothing but read makes everything else here a second lock.
func (d *Database) Rights(ctx context.Context) ([]sql.Finding, error) {
	var r rights
	err := d.list(ctx, rightsStatement, nil, func(scan func(...any) error) error {
		return scan(&r.user, &r.sysadmin, &r.control, &r.owner, &r.writer, &r.ddl, &r.security, &r.access, &r.backup,
			&r.insertRight, &r.updateRight, &r.deleteRight, &r.alterRight, &r.executeRight, &r.tables, &r.version)
	})
	if err != nil {
		return nil, err
	}
	return r.findings(), nil
}

func (r rights) findings() []sql.Finding {
	var found []sql.Finding
	if !ownVersion.MatchString(r.version) {
		found = append(found, sql.Finding{What: fmt.Sprintf("is on a server that calls itself %q: what holds writes back here is made for SQL Server itself", checked.Excerpt(r.version)),
			Fix: "Rely on nothing but a login that cannot write, made as that server's manual says."})
	}
	if r.sysadmin == 1 || r.control == 1 {
		return append(found, sql.Finding{What: "administers the server", Fix: safeLogin})
	}
	if r.owner == 1 {
		return append(found, sql.Finding{What: "owns the database (db_owner)", Fix: safeLogin})
	}
	others := len(found)
	for _, role := range []struct {
		member int
		name   string
	}{{r.writer, "db_datawriter"}, {r.ddl, "db_ddladmin"}, {r.security, "db_securityadmin"}, {r.access, "db_accessadmin"}, {r.backup, "db_backupoperator"}} {
		if role.member == 1 {
			found = append(found, sql.Finding{What: "is a member of " + role.name,
				Fix: fmt.Sprintf("ALTER ROLE %s DROP MEMBER %s;", role.name, bracket(r.user))})
		}
	}
	var may []string
	for _, right := range []struct {
		has  int
		name string
	}{{r.insertRight, "INSERT"}, {r.updateRight, "UPDATE"}, {r.deleteRight, "DELETE"}, {r.alterRight, "ALTER"}, {r.executeRight, "EXECUTE"}} {
		if right.has == 1 {
			may = append(may, right.name)
		}
	}
	if list := strings.Join(may, ", "); list != "" {
		found = append(found, sql.Finding{What: fmt.Sprintf("has %s in the whole database", list), Fix: fmt.Sprintf("DENY %s TO %s;", list, bracket(r.user))})
	} else if r.tables > 0 && len(found) == others {
		found = append(found, sql.Finding{What: fmt.Sprintf("may write to %d tables or views", r.tables),
			Fix: fmt.Sprintf("DENY INSERT, UPDATE, DELETE TO %s;", bracket(r.user))})
	}
	return found
}

// ownVersion is how SQL Server and its relatives in Azure begin @@VERSION. Others that speak its protocol and its
// language, such as Babelfish, begin it with their own name.
var ownVersion = regexp.MustCompile(`^Microsoft (SQL|Azure) `)

// safeLogin makes a login that reads one database; DENY overrides rights of the role public.
const safeLogin = `CREATE LOGIN sandbox_reader WITH PASSWORD = '…'; -- in master
CREATE USER sandbox_reader FOR LOGIN sandbox_reader; -- in the database
ALTER ROLE db_datareader ADD MEMBER sandbox_reader;
GRANT VIEW DEFINITION TO sandbox_reader;
DENY INSERT, UPDATE, DELETE, EXECUTE, ALTER TO sandbox_reader;`
