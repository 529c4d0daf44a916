SELECT 1
-- ~~~
select 1;
-- ~~~
;SELECT 1;;
-- ~~~
;WITH c AS (SELECT 1 AS a) SELECT a FROM c;
-- ~~~
SELECT*FROM dbo.people
-- ~~~
SELECT @@VERSION
-- ~~~
SELECT @@SERVERNAME, @@ROWCOUNT, @@SPID
-- ~~~
SELECT -1, +1, ~1, 1.5, .5, 1., 1e5, 1.5e-3, 0xFF, 0x, $12.50, £3, €4.50, -$1
-- ~~~
SELECT 'DELETE FROM t; DROP TABLE t'
-- ~~~
SELECT N'EXEC sp_who; GO'
-- ~~~
SELECT 'it''s -- no comment', N'/* nor this'
-- ~~~
SELECT 1 -- DELETE FROM dbo.people
-- ~~~
-- UPDATE everything
SELECT 1
-- ~~~
/* INSERT /* DELETE */ DROP */ SELECT 1
-- ~~~
SELECT /* ; */ 1
-- ~~~
SELECT 1 /* it's */ AS a
-- ~~~
SELECT [delete], [update], [into], [exec] FROM [dbo].[insert]
-- ~~~
SELECT "delete", "drop table" FROM "dbo"."update"
-- ~~~
SELECT [a]]b], "a""b" FROM dbo.t
-- ~~~
SELECT t.[select], t.[from] FROM dbo.t AS t
-- ~~~
SELECT t.update, t.delete FROM dbo.t AS t
-- ~~~
SELECT dbo.t.[set] FROM dbo.t
-- ~~~
SELECT 1 AS [delete], 2 AS "drop"
-- ~~~
SELECT [drop] = 1
-- ~~~
SELECT last_update, deleted, created_at, inserted_by, update_count FROM dbo.people
-- ~~~
SELECT execute_count, set_id, drop_date, merge_id, is_deleted FROM dbo.people
-- ~~~
SELECT TOP 10 * FROM dbo.people
-- ~~~
SELECT TOP (10) PERCENT * FROM dbo.people
-- ~~~
SELECT TOP (5) WITH TIES * FROM dbo.people ORDER BY age
-- ~~~
SELECT TOP (@p1) * FROM dbo.people ORDER BY id
-- ~~~
SELECT DISTINCT name FROM dbo.people
-- ~~~
SELECT ALL name FROM dbo.people
-- ~~~
SELECT COUNT(*), COUNT_BIG(*), COUNT(DISTINCT name) FROM dbo.people
-- ~~~
SELECT a FROM dbo.t UNION SELECT b FROM dbo.u
-- ~~~
SELECT a FROM dbo.t UNION ALL SELECT b FROM dbo.u
-- ~~~
SELECT a FROM dbo.t EXCEPT SELECT b FROM dbo.u INTERSECT SELECT c FROM dbo.v
-- ~~~
(SELECT a FROM dbo.t) UNION ALL (SELECT b FROM dbo.u)
-- ~~~
((SELECT 1)) UNION (SELECT 2)
-- ~~~
(SELECT 1)
-- ~~~
(SELECT 1 UNION SELECT 2) EXCEPT (SELECT 2) ORDER BY 1
-- ~~~
WITH c AS (SELECT 1 AS a) SELECT a FROM c
-- ~~~
WITH c (a, b) AS (SELECT 1, 2), d AS (SELECT a FROM c) SELECT * FROM d JOIN c ON c.a = d.a
-- ~~~
WITH c AS (SELECT 1 AS a) (SELECT a FROM c) UNION ALL (SELECT 2)
-- ~~~
WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT i FROM n OPTION (MAXRECURSION 100)
-- ~~~
WITH [delete] AS (SELECT 1 AS a) SELECT a FROM [delete]
-- ~~~
WITH XMLNAMESPACES ('urn:x' AS x) SELECT doc.value('(/x:a)[1]', 'int') FROM dbo.docs
-- ~~~
WITH XMLNAMESPACES (DEFAULT 'urn:x'), c AS (SELECT 1 AS a) SELECT a FROM c
-- ~~~
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (id, name)
-- ~~~
SELECT * FROM (SELECT 1 AS a) AS s
-- ~~~
SELECT * FROM dbo.people AS p INNER JOIN dbo.orders AS o ON o.person = p.id
-- ~~~
SELECT * FROM dbo.a LEFT OUTER JOIN dbo.b ON a.id = b.id RIGHT JOIN dbo.c ON c.id = b.id FULL JOIN dbo.d ON d.id = c.id
-- ~~~
SELECT * FROM dbo.a INNER MERGE JOIN dbo.b ON a.id = b.id
-- ~~~
SELECT * FROM dbo.a LEFT OUTER MERGE JOIN dbo.b ON a.id = b.id
-- ~~~
SELECT * FROM dbo.a INNER HASH JOIN dbo.b ON a.id = b.id INNER LOOP JOIN dbo.c ON c.id = a.id
-- ~~~
SELECT * FROM dbo.a INNER REMOTE JOIN dbo.b ON a.id = b.id
-- ~~~
SELECT * FROM dbo.a CROSS JOIN dbo.b, dbo.c
-- ~~~
SELECT * FROM dbo.people AS p CROSS APPLY dbo.orders_of(p.id) AS o
-- ~~~
SELECT * FROM dbo.people AS p OUTER APPLY (SELECT TOP (1) * FROM dbo.orders AS o WHERE o.person = p.id ORDER BY o.at DESC) AS last
-- ~~~
SELECT * FROM dbo.f(1, 'a') AS f
-- ~~~
SELECT * FROM STRING_SPLIT('a,b', ',')
-- ~~~
SELECT value FROM GENERATE_SERIES(1, 10)
-- ~~~
SELECT * FROM OPENJSON('[1,2]')
-- ~~~
SELECT * FROM OPENJSON(@p1) WITH (id int '$.id', name nvarchar(50) '$.name', rest nvarchar(max) '$' AS JSON) AS j
-- ~~~
SELECT j.* FROM dbo.docs AS d CROSS APPLY OPENJSON(d.body, '$.items') WITH (sku varchar(20), n int) AS j
-- ~~~
SELECT JSON_VALUE(body, '$.a'), JSON_QUERY(body, '$.b'), ISJSON(body) FROM dbo.docs
-- ~~~
SELECT JSON_OBJECT('id': id, 'name': name) FROM dbo.people
-- ~~~
SELECT JSON_ARRAY(1, 2, NULL NULL ON NULL)
-- ~~~
SELECT id, name FROM dbo.people FOR JSON PATH, ROOT('people'), INCLUDE_NULL_VALUES
-- ~~~
SELECT id, name FROM dbo.people FOR JSON AUTO, WITHOUT_ARRAY_WRAPPER
-- ~~~
SELECT id, name FROM dbo.people FOR XML PATH('person'), ROOT('people'), TYPE
-- ~~~
SELECT id FROM dbo.people FOR XML RAW, ELEMENTS XSINIL
-- ~~~
SELECT id FROM dbo.people FOR XML AUTO, BINARY BASE64
-- ~~~
SELECT (SELECT name AS [data()] FROM dbo.people FOR XML PATH('')) AS names
-- ~~~
SELECT STUFF((SELECT ',' + name FROM dbo.people FOR XML PATH(''), TYPE).value('.', 'nvarchar(max)'), 1, 1, '')
-- ~~~
SELECT doc.query('/a/b'), doc.exist('/a'), n.x.value('@id', 'int') FROM dbo.docs CROSS APPLY doc.nodes('/a/b') AS n (x)
-- ~~~
SELECT t.n.value('.', 'int') FROM dbo.docs AS d CROSS APPLY dbo.docs.doc.nodes('/a') AS t (n)
-- ~~~
SELECT * FROM (SELECT region, amount FROM dbo.sales) AS s PIVOT (SUM(amount) FOR region IN ([north], [south])) AS p
-- ~~~
SELECT id, kind, n FROM dbo.wide UNPIVOT (n FOR kind IN (a, b, c)) AS u
-- ~~~
SELECT ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC) AS r FROM dbo.sales
-- ~~~
SELECT SUM(amount) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM dbo.sales
-- ~~~
SELECT AVG(amount) OVER (ORDER BY at RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM dbo.sales
-- ~~~
SELECT LAG(amount, 1, 0) OVER (ORDER BY at), LEAD(amount) OVER (ORDER BY at), FIRST_VALUE(amount) OVER (ORDER BY at) FROM dbo.sales
-- ~~~
SELECT SUM(amount) OVER w FROM dbo.sales WINDOW w AS (PARTITION BY region ORDER BY at)
-- ~~~
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) OVER (PARTITION BY region) FROM dbo.sales
-- ~~~
SELECT STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY name DESC) FROM dbo.people
-- ~~~
SELECT NTILE(4) OVER (ORDER BY amount), RANK() OVER (ORDER BY amount), DENSE_RANK() OVER (ORDER BY amount) FROM dbo.sales
-- ~~~
SELECT region, SUM(amount) FROM dbo.sales GROUP BY region HAVING SUM(amount) > 10 ORDER BY 2 DESC
-- ~~~
SELECT region, SUM(amount) FROM dbo.sales GROUP BY ROLLUP (region)
-- ~~~
SELECT region, SUM(amount) FROM dbo.sales GROUP BY region WITH ROLLUP
-- ~~~
SELECT region, SUM(amount) FROM dbo.sales GROUP BY region WITH CUBE
-- ~~~
SELECT region, kind, GROUPING(region), SUM(amount) FROM dbo.sales GROUP BY GROUPING SETS ((region), (kind), ())
-- ~~~
SELECT region FROM dbo.sales GROUP BY CUBE (region, kind)
-- ~~~
SELECT * FROM dbo.people ORDER BY id OFFSET 10 ROWS
-- ~~~
SELECT * FROM dbo.people ORDER BY id OFFSET 10 ROWS FETCH NEXT 5 ROWS ONLY
-- ~~~
SELECT * FROM dbo.people ORDER BY id OFFSET 0 ROW FETCH FIRST 1 ROW ONLY
-- ~~~
SELECT * FROM dbo.people ORDER BY id OFFSET @p1 ROWS FETCH NEXT @p2 ROWS ONLY
-- ~~~
SELECT * FROM dbo.people ORDER BY id OFFSET (1 + 1) ROWS FETCH NEXT (SELECT 5) ROWS ONLY
-- ~~~
SELECT CASE WHEN age > 17 THEN 'adult' ELSE 'child' END FROM dbo.people
-- ~~~
SELECT CASE kind WHEN 1 THEN CASE WHEN a = 1 THEN 'x' END ELSE 'y' END AS k FROM dbo.t
-- ~~~
SELECT COUNT(CASE WHEN a = 1 THEN 1 END) FROM dbo.t
-- ~~~
SELECT IIF(a > 1, 'x', 'y'), CHOOSE(1, 'a', 'b'), COALESCE(a, b), NULLIF(a, b), ISNULL(a, 0) FROM dbo.t
-- ~~~
SELECT CAST(a AS decimal(10, 2)), CONVERT(varchar(10), at, 120), TRY_CAST(a AS int), TRY_CONVERT(date, b), PARSE('1' AS int) FROM dbo.t
-- ~~~
SELECT LEFT(name, 3), RIGHT(name, 3), REPLACE(name, 'a', 'b'), SUBSTRING(name, 1, 2), LEN(name), CHARINDEX('a', name) FROM dbo.people
-- ~~~
SELECT TRIM('x' FROM name), TRIM(BOTH ' ' FROM name), TRANSLATE(name, 'ab', 'cd') FROM dbo.people
-- ~~~
SELECT FORMAT(at, 'yyyy-MM'), DATEADD(day, 1, at), DATEDIFF(day, at, GETDATE()), EOMONTH(at), DATEPART(year, at) FROM dbo.sales
-- ~~~
SELECT at AT TIME ZONE 'UTC' AT TIME ZONE 'Central European Standard Time' FROM dbo.sales
-- ~~~
SELECT CURRENT_TIMESTAMP, CURRENT_USER, SESSION_USER, SYSTEM_USER, USER_NAME(), SYSUTCDATETIME()
-- ~~~
SELECT NEWID(), HASHBYTES('SHA2_256', 'x'), CHECKSUM(1), RAND()
-- ~~~
SELECT name COLLATE Latin1_General_BIN2 FROM dbo.people
-- ~~~
SELECT * FROM dbo.people WHERE name LIKE '%a\_%' ESCAPE '\'
-- ~~~
SELECT * FROM dbo.people WHERE name LIKE N'[a-c]%' AND age BETWEEN 1 AND 5 AND NOT (id IS NULL)
-- ~~~
SELECT * FROM dbo.people WHERE id IN (1, 2, 3) OR id IN (SELECT id FROM dbo.vip)
-- ~~~
SELECT * FROM dbo.people AS p WHERE EXISTS (SELECT 1 FROM dbo.orders AS o WHERE o.person = p.id)
-- ~~~
SELECT * FROM dbo.people WHERE age > ALL (SELECT age FROM dbo.vip) OR age = ANY (SELECT 1) OR age < SOME (SELECT 2)
-- ~~~
SELECT * FROM dbo.people WHERE a IS DISTINCT FROM b AND a IS NOT DISTINCT FROM c
-- ~~~
SELECT * FROM dbo.people WHERE a <> 1 AND b != 2 AND c !> 3 AND d !< 4 AND e >= 5 AND f <= 6
-- ~~~
SELECT a % 2, a & 1, a | 2, a ^ 3, a / 2, a * 2, a - 1 FROM dbo.t
-- ~~~
SELECT * FROM dbo.people WITH (NOLOCK)
-- ~~~
SELECT * FROM dbo.people (NOLOCK)
-- ~~~
SELECT * FROM dbo.people AS p WITH (INDEX (ix_name), READPAST, FORCESEEK)
-- ~~~
SELECT * FROM dbo.people TABLESAMPLE (10 PERCENT) REPEATABLE (5)
-- ~~~
SELECT * FROM dbo.people FOR SYSTEM_TIME AS OF '2026-01-01'
-- ~~~
SELECT * FROM dbo.people FOR SYSTEM_TIME FROM '2025-01-01' TO '2026-01-01'
-- ~~~
SELECT * FROM dbo.people FOR SYSTEM_TIME BETWEEN '2025-01-01' AND '2026-01-01', dbo.b
-- ~~~
SELECT * FROM dbo.people OPTION (RECOMPILE, MAXDOP 1)
-- ~~~
SELECT * FROM dbo.a JOIN dbo.b ON a.id = b.id OPTION (MERGE JOIN, HASH GROUP, FORCE ORDER)
-- ~~~
SELECT a FROM dbo.t UNION SELECT b FROM dbo.u OPTION (MERGE UNION)
-- ~~~
SELECT * FROM dbo.t OPTION (USE HINT ('FORCE_LEGACY_CARDINALITY_ESTIMATION'), FAST 10)
-- ~~~
SELECT * FROM dbo.t OPTION (USE PLAN N'<ShowPlanXML/>')
-- ~~~
SELECT * FROM dbo.t AS t OPTION (TABLE HINT (t, NOLOCK))
-- ~~~
SELECT * FROM dbo.t WHERE a = @p1 OPTION (OPTIMIZE FOR (@p1 = 5))
-- ~~~
SELECT * FROM dbo.t WHERE a = @p1 AND b = @p2 AND c IN (@p3, @p1)
-- ~~~
SELECT * FROM shop.dbo.people
-- ~~~
SELECT * FROM [shop].[dbo].[people] AS p JOIN shop..orders AS o ON o.person = p.id
-- ~~~
SELECT shop.dbo.people.name FROM shop.dbo.people
-- ~~~
SELECT name FROM sys.tables ORDER BY name
-- ~~~
SELECT * FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'people'
-- ~~~
SELECT * FROM sys.dm_exec_requests
-- ~~~
SELECT * FROM sys.fn_helpcollations()
-- ~~~
SELECT OBJECT_ID('dbo.people'), OBJECT_DEFINITION(1), SCHEMA_NAME(1), DB_NAME()
-- ~~~
SELECT hierarchyid::GetRoot(), geography::Point(47.6, -122.3, 4326).ToString()
-- ~~~
SELECT node.GetLevel(), node.ToString() FROM dbo.tree
-- ~~~
SELECT geometry::STGeomFromText('POINT (1 2)', 0).STAsText()
-- ~~~
SELECT {d '2026-01-31'}, {t '13:05:00'}, {ts '2026-01-31 13:05:00'}, {fn UCASE('a')}
-- ~~~
SELECT $action AS a, $identity FROM dbo.t
-- ~~~
SELECT $PARTITION.pf(5)
-- ~~~
SELECT a.receive, enable, disable, [throw] FROM dbo.t AS a
-- ~~~
SELECT receive, throw FROM dbo.t WHERE receive = 1 AND throw IS NULL
-- ~~~
SELECT next, value FROM dbo.t
-- ~~~
SELECT go, send, move FROM dbo.t
-- ~~~
SELECT key_column, [key], path, source, target, output_path FROM dbo.t
-- ~~~
SELECT Straße, größe, 名前, имя FROM dbo.Menschen
-- ~~~
SELECT 'ﬀ', N'日本語', N'😀 DELETE'
-- ~~~
SELECT #t.a FROM #t
-- ~~~
SELECT a$b, a#b, a@b, _a FROM dbo.t
-- ~~~
SELECT
	a,	-- the first
	b	/* the second */
FROM
	dbo.t
WHERE
	a = 'x
y'
-- ~~~
SELECT CONVERT(xml, '<a>DELETE</a>')
-- ~~~
SELECT a = 1, b = 'x', 'y' AS c, z d FROM dbo.t
-- ~~~
SELECT person.name, friend.name FROM dbo.person, dbo.knows, dbo.person AS friend WHERE MATCH(person-(knows)->friend)
-- ~~~
SELECT * FROM CONTAINSTABLE(dbo.docs, body, 'x') AS k WHERE CONTAINS(body, '"DELETE"') OR FREETEXT(body, 'x')
-- ~~~
SELECT * FROM CHANGETABLE(CHANGES dbo.people, 0) AS c
-- ~~~
SELECT APPROX_COUNT_DISTINCT(a), STDEV(a), VAR(a), GREATEST(1, 2), LEAST(1, 2) FROM dbo.t
-- ~~~
SELECT DATETRUNC(month, at), DATE_BUCKET(week, 1, at), GETUTCDATE() FROM dbo.sales
-- ~~~
SELECT a FROM dbo.t ORDER BY CASE WHEN a = 1 THEN 0 ELSE 1 END, a DESC
-- ~~~
SELECT a FROM dbo.t ORDER BY (SELECT NULL) OFFSET 0 ROWS
-- ~~~
SELECT (SELECT MAX(a) FROM dbo.t) - (SELECT MIN(a) FROM dbo.t) AS spread
-- ~~~
SELECT * FROM dbo.t WHERE (a, 1) IS NULL OR a = (SELECT TOP 1 b FROM dbo.u)
-- ~~~
SELECT HAS_PERMS_BY_NAME('dbo.t', 'OBJECT', 'INSERT')
-- ~~~
SELECT REPLICATE('x', 3), SPACE(2), UPPER('update'), LOWER('DELETE')
-- ~~~
SELECT ERROR_MESSAGE(), XACT_STATE(), CONTEXT_INFO(), SESSION_CONTEXT(N'k')
-- ~~~
SELECT a FROM dbo.t FOR BROWSE
-- ~~~
SELECT * FROM dbo.messages AS m JOIN dbo.outbox send ON send.id = m.id
-- ~~~
SELECT * FROM dbo.messages AS m JOIN dbo.outbox AS send ON conversation = m.id
-- ~~~
SELECT * FROM dbo.messages m JOIN dbo.outbox send ON conversation.id = send.id, dbo.conversation conversation
-- ~~~
SELECT send, get, move, rename, throw, receive FROM dbo.t AS send
-- ~~~
SELECT receive * 2, 1 + receive - 1, throw + 1 FROM dbo.t WHERE receive IS NULL OR throw > 5
-- ~~~
SELECT x.amount receive, y.amount throw FROM dbo.x x LEFT JOIN dbo.y receive LEFT JOIN dbo.z throw ON 1 = 1 ON 1 = 1 WHERE receive.id = 1
-- ~~~
SELECT get conversation FROM get conversation GROUP BY get
-- ~~~
SELECT move conversation, rename object FROM dbo.move object WHERE object.a = 1
-- ~~~
SELECT enable, disable trigger_name FROM dbo.t disable
-- ~~~
SELECT
	go
FROM dbo.t
-- ~~~
SELECT
	id,
	go
FROM dbo.t
-- ~~~
SELECT shop.dbo.people.name, LEFT(shop.dbo.people.name, 3) FROM shop.dbo.people, shop.dbo.orders WHERE shop.dbo.people.id IN (shop.dbo.orders.id, 1)
-- ~~~
SELECT * FROM dbo.a CROSS APPLY (VALUES (shop.dbo.a.x, shop.dbo.a.y), (shop.dbo.a.z, 1)) AS v (x, y)
-- ~~~
SELECT p1.name, STRING_AGG(p2.name, '->') WITHIN GROUP (GRAPH PATH) AS friends FROM dbo.person AS p1, dbo.knows FOR PATH AS k, dbo.person FOR PATH AS p2 WHERE MATCH(SHORTEST_PATH(p1(-(k)->p2)+))
-- ~~~
SELECT * FROM (dbo.a AS a CROSS JOIN shop.dbo.b AS b), {oj dbo.c AS c LEFT OUTER JOIN dbo.d AS d ON c.id = d.id}
-- ~~~
SELECT dbo.places.spot.Lat FROM dbo.places
-- ~~~
SELECT id, MAX(serializable), COUNT(tablock) FROM dbo.modes WHERE xlock IN (updlock, holdlocks) AND COALESCE(updlock, 0) = 1
