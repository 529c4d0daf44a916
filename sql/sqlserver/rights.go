package sqlserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// rightsStatement asks for one row: who it is, then 1 where the login is or may what the column says.
const rightsStatement = `
SELECT USER_NAME(), SUSER_SNAME(),
	ISNULL(IS_SRVROLEMEMBER('sysadmin'), 0), ISNULL(HAS_PERMS_BY_NAME(NULL, NULL, 'CONTROL SERVER'), 0),
	ISNULL(IS_ROLEMEMBER('db_owner'), 0), ISNULL(IS_ROLEMEMBER('db_datawriter'), 0), ISNULL(IS_ROLEMEMBER('db_ddladmin'), 0),
	ISNULL(IS_ROLEMEMBER('db_securityadmin'), 0), ISNULL(IS_ROLEMEMBER('db_accessadmin'), 0), ISNULL(IS_ROLEMEMBER('db_backupoperator'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'INSERT'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'UPDATE'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'DELETE'), 0), ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'ALTER'), 0),
	ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'EXECUTE'), 0),
	(SELECT COUNT(*) FROM sys.objects AS o WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0
		AND 1 IN (HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'INSERT'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'UPDATE'),
			HAS_PERMS_BY_NAME(QUOTENAME(SCHEMA_NAME(o.schema_id)) + N'.' + QUOTENAME(o.name), 'OBJECT', 'DELETE')))`

// rights is a row of rightsStatement.
type rights struct {
	user, login                                                             string
	sysadmin, control                                                       int
	owner, writer, ddl, security, access, backup                            int
	insertRight, updateRight, deleteRight, alterRight, executeRight, tables int
}

// Rights implements sql.Database. A login that can do nothing but read makes everything else here a second lock.
func (d *Database) Rights(ctx context.Context) ([]sql.Finding, error) {
	var r rights
	err := d.list(ctx, rightsStatement, nil, func(scan func(...any) error) error {
		return scan(&r.user, &r.login, &r.sysadmin, &r.control, &r.owner, &r.writer, &r.ddl, &r.security, &r.access, &r.backup,
			&r.insertRight, &r.updateRight, &r.deleteRight, &r.alterRight, &r.executeRight, &r.tables)
	})
	if err != nil {
		return nil, err
	}
	return r.findings(), nil
}

func (r rights) findings() []sql.Finding {
	if r.sysadmin == 1 || r.control == 1 {
		return []sql.Finding{{What: fmt.Sprintf("the login %s administers the server", r.login), Fix: safeLogin}}
	}
	if r.owner == 1 {
		return []sql.Finding{{What: fmt.Sprintf("the user %s owns the database (db_owner)", r.user), Fix: safeLogin}}
	}
	var found []sql.Finding
	for _, role := range []struct {
		member int
		name   string
	}{{r.writer, "db_datawriter"}, {r.ddl, "db_ddladmin"}, {r.security, "db_securityadmin"}, {r.access, "db_accessadmin"}, {r.backup, "db_backupoperator"}} {
		if role.member == 1 {
			found = append(found, sql.Finding{What: fmt.Sprintf("the user %s is a member of %s", r.user, role.name),
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
		found = append(found, sql.Finding{What: fmt.Sprintf("the user %s has %s in the whole database", r.user, list),
			Fix: fmt.Sprintf("DENY %s TO %s;", list, bracket(r.user))})
	}
	if r.tables > 0 && len(found) == 0 {
		found = append(found, sql.Finding{What: fmt.Sprintf("the user %s may write to %d tables or views", r.user, r.tables),
			Fix: fmt.Sprintf("DENY INSERT, UPDATE, DELETE TO %s;", bracket(r.user))})
	}
	return found
}

// safeLogin makes a login that reads one database; DENY holds against rights that the role public has.
const safeLogin = `CREATE LOGIN sandbox_reader WITH PASSWORD = '…'; -- in master
CREATE USER sandbox_reader FOR LOGIN sandbox_reader; -- in the database
ALTER ROLE db_datareader ADD MEMBER sandbox_reader;
GRANT VIEW DEFINITION TO sandbox_reader;
DENY INSERT, UPDATE, DELETE, EXECUTE, ALTER TO sandbox_reader;`
