SELECT 1
-- ~~~
select 1;
-- ~~~
SELECT 1 ; -- the end
-- ~~~
/* first */ SELECT /* nested /* comment */ here */ 1 -- last
-- ~~~
SELECT
-- ~~~
(SELECT 1)
-- ~~~
((SELECT 1) UNION (SELECT 2)) ORDER BY 1 LIMIT 1
-- ~~~
(SELECT 1 UNION ALL SELECT 2) INTERSECT (VALUES (2)) EXCEPT SELECT 3
-- ~~~
SELECT 1 UNION SELECT 2 UNION ALL (SELECT 3 ORDER BY 1 LIMIT 1) ORDER BY 1 DESC NULLS LAST
-- ~~~
VALUES (1, 'a'), (2, 'b')
-- ~~~
VALUES (1), (2) ORDER BY 1 OFFSET 1 ROW FETCH FIRST ROW ONLY
-- ~~~
TABLE accounts
-- ~~~
TABLE public.accounts ORDER BY id LIMIT 2
-- ~~~
SHOW ALL
-- ~~~
SHOW server_version
-- ~~~
SHOW TIME ZONE
-- ~~~
SHOW TRANSACTION ISOLATION LEVEL
-- ~~~
SHOW search_path;
-- ~~~
EXPLAIN SELECT * FROM accounts
-- ~~~
EXPLAIN VERBOSE SELECT * FROM accounts
-- ~~~
EXPLAIN SELECT substring(a FOR key), overlay(a PLACING 'x' FROM 1 FOR key) FROM (VALUES ('abc', 2)) t(a, key)
-- ~~~
EXPLAIN (FORMAT JSON) SELECT * FROM accounts
-- ~~~
EXPLAIN (ANALYZE false, FORMAT JSON) SELECT * FROM accounts
-- ~~~
EXPLAIN (ANALYZE off, VERBOSE, COSTS false) VALUES (1)
-- ~~~
EXPLAIN (ANALYZE 0) TABLE accounts
-- ~~~
EXPLAIN ("analyze" 'false') SELECT 1
-- ~~~
EXPLAIN ANALYZE SELECT * FROM accounts
-- ~~~
EXPLAIN ANALYSE VERBOSE SELECT 1
-- ~~~
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, VERBOSE) SELECT * FROM accounts WHERE id = 1
-- ~~~
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, WAL, SETTINGS) TABLE accounts
-- ~~~
EXPLAIN (ANALYZE true, FORMAT YAML) WITH a AS (SELECT 1) SELECT * FROM a
-- ~~~
EXPLAIN (FORMAT XML, "analyze") VALUES (1)
-- ~~~
EXPLAIN (ANALYZE) (SELECT 1)
-- ~~~
EXPLAIN (BUFFERS, ANALYZE) ((SELECT 1) UNION (SELECT 2))
-- ~~~
EXPLAIN (ANALYZE off, ANALYZE on) SELECT owner, count(*) FROM accounts GROUP BY owner
-- ~~~
EXPLAIN (ANALYZE 'on') SELECT * FROM accounts WHERE id = $1::int
-- ~~~
EXPLAIN (SELECT 1)
-- ~~~
EXPLAIN ((SELECT 1) UNION (SELECT 2))
-- ~~~
EXPLAIN WITH a AS (SELECT 1) SELECT * FROM a
-- ~~~
EXPLAIN (SETTINGS on, SUMMARY true) SELECT 'ANALYZE'
-- ~~~
SELECT * FROM accounts
-- ~~~
SELECT a.* FROM accounts AS a WHERE a.owner = 'anna'
-- ~~~
SELECT * FROM accounts WHERE owner IN ('anna', 'bert') AND balance BETWEEN 1 AND 100 OR balance IS NULL
-- ~~~
SELECT owner, sum(balance) FROM accounts GROUP BY owner HAVING count(*) > 0 ORDER BY 2 DESC
-- ~~~
SELECT count(*) FILTER (WHERE balance > 10), avg(balance) FROM accounts
-- ~~~
SELECT owner, kind, count(*) FROM accounts GROUP BY GROUPING SETS ((owner), (kind), ())
-- ~~~
SELECT owner, kind, grouping(owner, kind) FROM accounts GROUP BY CUBE (owner, kind)
-- ~~~
SELECT owner, count(*) FROM accounts GROUP BY ROLLUP (owner)
-- ~~~
SELECT string_agg(DISTINCT owner, ', ' ORDER BY owner) FROM accounts
-- ~~~
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY balance) FROM accounts
-- ~~~
SELECT mode() WITHIN GROUP (ORDER BY owner) FROM accounts
-- ~~~
SELECT id, row_number() OVER (PARTITION BY owner ORDER BY id) FROM accounts
-- ~~~
SELECT id, sum(balance) OVER w FROM accounts WINDOW w AS (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
-- ~~~
SELECT lag(balance, 1, 0) OVER (ORDER BY id) FROM accounts
-- ~~~
SELECT id, sum(id) OVER (w ROWS UNBOUNDED PRECEDING) FROM accounts WINDOW w AS (ORDER BY balance)
-- ~~~
SELECT sum(balance) OVER (ORDER BY id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM accounts
-- ~~~
SELECT * FROM accounts a JOIN accounts b ON a.id = b.id LEFT JOIN accounts c ON c.id = b.id CROSS JOIN accounts d
-- ~~~
SELECT * FROM accounts NATURAL JOIN totals
-- ~~~
SELECT * FROM accounts a, LATERAL (SELECT a.balance * 2 AS twice) b
-- ~~~
SELECT * FROM accounts a LEFT JOIN LATERAL (SELECT 1 LIMIT 1) b ON true
-- ~~~
SELECT * FROM generate_series(1, 3) WITH ORDINALITY AS g(n, i)
-- ~~~
SELECT * FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY['a', 'b'])) AS r(n, t)
-- ~~~
SELECT * FROM accounts TABLESAMPLE SYSTEM (50)
-- ~~~
SELECT * FROM accounts TABLESAMPLE BERNOULLI (50) REPEATABLE (1)
-- ~~~
SELECT * FROM ONLY accounts
-- ~~~
SELECT DISTINCT ON (owner) owner, id FROM accounts ORDER BY owner, id
-- ~~~
SELECT * FROM accounts ORDER BY id FETCH FIRST 2 ROWS ONLY
-- ~~~
SELECT * FROM accounts ORDER BY balance FETCH FIRST 1 ROWS WITH TIES
-- ~~~
SELECT * FROM accounts LIMIT ALL OFFSET 0
-- ~~~
SELECT * FROM accounts FOR READ ONLY
-- ~~~
SELECT EXISTS (SELECT 1 FROM accounts), 1 = ANY (SELECT id FROM accounts), 1 < ALL (ARRAY[2, 3])
-- ~~~
SELECT (SELECT max(id) FROM accounts) AS top
-- ~~~
WITH a AS (SELECT 1 AS n) SELECT n FROM a
-- ~~~
WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a, b
-- ~~~
WITH a(n) AS (VALUES (1), (2)), b AS (TABLE a) SELECT * FROM b
-- ~~~
WITH a AS MATERIALIZED (SELECT 1), b AS NOT MATERIALIZED (SELECT 2) TABLE a
-- ~~~
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
-- ~~~
WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 3) SEARCH DEPTH FIRST BY n SET o SELECT * FROM r ORDER BY o
-- ~~~
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 3 + 1 FROM r) CYCLE n SET looped USING path SELECT * FROM r
-- ~~~
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n % 3 + 1 FROM r) SEARCH BREADTH FIRST BY n SET o CYCLE n SET looped TO 'Y' DEFAULT 'N' USING path, s AS (SELECT 1) SELECT * FROM r, s
-- ~~~
WITH a AS (WITH b AS (SELECT 1 AS n) SELECT n FROM b) SELECT * FROM a
-- ~~~
WITH a AS ((SELECT 1) UNION (SELECT 2)) (SELECT * FROM a)
-- ~~~
(WITH a AS (SELECT 1) SELECT * FROM a)
-- ~~~
SELECT * FROM (WITH a AS (SELECT 1 AS n) SELECT n FROM a) s
-- ~~~
WITH nextval(setval) AS (SELECT 1) SELECT setval FROM nextval
-- ~~~
WITH RECURSIVE dblink(n) AS (SELECT 1) SELECT n FROM dblink
-- ~~~
WITH "delete" AS (SELECT 1) SELECT * FROM "delete"
-- ~~~
WITH update AS (SELECT 1 AS insert) SELECT insert FROM update
-- ~~~
SELECT 'DELETE FROM accounts; DROP TABLE accounts'
-- ~~~
SELECT 'it''s; DELETE', E'it\'s; DELETE', E'\\', U&'d\0061t\+000061; DELETE', $$DELETE; 'x'$$, $q$ $$ ; UPDATE $q$
-- ~~~
SELECT 'a'
  'b; DELETE'
-- ~~~
SELECT 'pg_read_file(''/etc/passwd'')', 'SELECT INTO', 'FOR UPDATE'
-- ~~~
SELECT B'0101', X'1F', N'text', b'1'
-- ~~~
SELECT '\', 'C:\temp\'
-- ~~~
SELECT 1 AS "DELETE FROM accounts; --"
-- ~~~
SELECT 1 AS "a""b; DROP TABLE accounts"
-- ~~~
SELECT -- DELETE FROM accounts;
 1
-- ~~~
SELECT /* ; DROP TABLE accounts; */ 1
-- ~~~
SELECT "into", "update" FROM words
-- ~~~
SELECT words."into", w.update FROM words, words w
-- ~~~
SELECT w.for, w.into, w.with, w.select FROM words w
-- ~~~
SELECT "for", "with", "select" FROM words
-- ~~~
SELECT nextval, dblink, set_config FROM words
-- ~~~
SELECT nextval AS setval FROM words ORDER BY nextval
-- ~~~
SELECT * FROM public.dblink
-- ~~~
SELECT id FROM dblink
-- ~~~
SELECT dblink.id FROM dblink JOIN public.dblink d ON d.id = dblink.id
-- ~~~
SELECT public.dblink.id FROM public.dblink
-- ~~~
SELECT id AS pg_read_file FROM accounts
-- ~~~
SELECT 1 AS into
-- ~~~
SELECT 1 AS for, 2 AS with, 3 AS update
-- ~~~
SELECT 1 delete, 2 insert, 3 update
-- ~~~
SELECT update, delete FROM (SELECT 1 AS update, 2 AS delete) s
-- ~~~
SELECT count(update) FROM words
-- ~~~
SELECT (update || 'x') FROM words
-- ~~~
SELECT * FROM (VALUES (1, 2)) AS nextval(a, b)
-- ~~~
SELECT * FROM json_to_record('{"update": 1, "delete": true}') AS (update int, delete boolean)
-- ~~~
SELECT substring('abcdef' FROM 2 FOR 3)
-- ~~~
SELECT substring('abcdef' FROM 2 FOR share) FROM (SELECT 2 AS share) s
-- ~~~
SELECT substring('abc' FOR key) FROM (SELECT 2 AS key) s
-- ~~~
SELECT overlay('abcdef' PLACING 'x' FROM 2 FOR update) FROM (SELECT 1 AS update) s
-- ~~~
SELECT trim(BOTH 'x' FROM 'xax'), trim(LEADING FROM ' a'), position('b' IN 'abc')
-- ~~~
SELECT extract(year FROM date '2026-01-31'), extract(epoch FROM now())
-- ~~~
SELECT substring('Thomas' SIMILAR '%#"o_a#"_' ESCAPE '#')
-- ~~~
SELECT 1 IS DISTINCT FROM 2, NULL IS NOT DISTINCT FROM NULL
-- ~~~
SELECT * FROM accounts WHERE owner ILIKE '%a%' ESCAPE '!' AND owner SIMILAR TO '(a|b)%'
-- ~~~
SELECT '2026-01-31 12:00'::timestamp AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Vienna'
-- ~~~
SELECT timestamptz '2026-01-31 12:00+00', interval '1 day', interval '1' year, date '2026-01-31'
-- ~~~
SELECT CAST('1' AS numeric(10, 2)), '1'::int, '{1,2}'::int[], '1'::"char", '1'::pg_catalog.int4
-- ~~~
SELECT now(), current_date, localtime, current_user, session_user, current_catalog, current_schema
-- ~~~
SELECT clock_timestamp(), random(), gen_random_uuid(), timeofday()
-- ~~~
SELECT (ARRAY[1, 2, 3])[1:2], (ARRAY[1, 2, 3])[2], ARRAY[[1, 2], [3, 4]]
-- ~~~
SELECT a[1], a[:2], a[2:] FROM (SELECT ARRAY[1, 2, 3] AS a) s
-- ~~~
SELECT ARRAY(SELECT id FROM accounts ORDER BY id)
-- ~~~
SELECT unnest(ARRAY[1, 2]), generate_series(1, 2)
-- ~~~
SELECT '{"a": {"b": [1, 2]}}'::jsonb -> 'a' -> 'b' ->> 0, '{"a": 1}'::jsonb #>> '{a}'
-- ~~~
SELECT '{"a": 1}'::jsonb @> '{"a": 1}', '{"a": 1}'::jsonb ? 'a', '{"a": 1}'::jsonb ?| ARRAY['a', 'b'], '{"a": 1}'::jsonb ?& ARRAY['a']
-- ~~~
SELECT jsonb_path_query('{"a": [1, 2, 3]}', '$.a[*] ? (@ > 1)')
-- ~~~
SELECT '{"a": 1}'::jsonb @? '$.a', '{"a": 1}'::jsonb @@ '$.a == 1'
-- ~~~
SELECT ('{"a": 1}'::jsonb)['a']
-- ~~~
SELECT * FROM jsonb_each('{"a": 1}')
-- ~~~
SELECT * FROM jsonb_to_recordset('[{"a": 1}]') AS x(a int)
-- ~~~
SELECT jsonb_build_object('a', 1), to_jsonb(a), row_to_json(a) FROM accounts a
-- ~~~
SELECT jsonb_agg(a ORDER BY a.id) FROM accounts a
-- ~~~
SELECT xmlelement(name a, xmlattributes(1 AS b), 'c')
-- ~~~
SELECT * FROM xmltable('/r/x' PASSING ('<r><x>1</x></r>'::xml) COLUMNS v int PATH '.')
-- ~~~
SELECT table_to_xml('accounts', true, true, '')
-- ~~~
SELECT int4range(1, 5) && int4range(3, 8), '[1,3)'::int4range @> 2
-- ~~~
SELECT '10.0.0.1'::inet << '10.0.0.0/8'::inet
-- ~~~
SELECT point(1, 2) <-> point(3, 4), box '((0,0),(1,1))'
-- ~~~
SELECT to_tsvector('english', 'the cats') @@ to_tsquery('english', 'cat')
-- ~~~
SELECT ts_rewrite('a & b'::tsquery, 'a'::tsquery, 'c'::tsquery)
-- ~~~
SELECT ts_headline('a cat', 'cat'::tsquery)
-- ~~~
SELECT CASE WHEN 1 = 1 THEN 'yes' ELSE 'no' END, coalesce(NULL, 1), nullif(1, 1), greatest(1, 2)
-- ~~~
SELECT CASE owner WHEN 'anna' THEN 1 END FROM accounts
-- ~~~
SELECT ROW(1, 'a'), (1, 2) = (1, 2), (a).id, (a).* FROM accounts a
-- ~~~
SELECT ((SELECT a FROM accounts a LIMIT 1)).owner
-- ~~~
SELECT 1e5, .5, 1., 1.5e-3, -1, +1, - -1, 2 ^ 3, 7 % 3, |/ 4, @ -1
-- ~~~
SELECT 1 OPERATOR(pg_catalog.+) 2
-- ~~~
SELECT 'a' COLLATE "C" < 'b', 'a' ~* 'A', 'a' !~ 'b', 'a' || 'b'
-- ~~~
SELECT 1 <> 2, 1 != 2, NOT true, true IS NOT FALSE, 1 NOTNULL, NULL ISNULL
-- ~~~
SELECT 5 -- minus
 - 3
-- ~~~
SELECT 5 - -3, 5/**/+/**/3
-- ~~~
SELECT $1::int
-- ~~~
SELECT '$1', $$ $1 $$
-- ~~~
SELECT format('%I %L %s', 'a', 'b', 'c'), quote_ident('a b'), quote_literal('a')
-- ~~~
SELECT pg_typeof(1), pg_size_pretty(pg_total_relation_size('accounts')), pg_database_size(current_database())
-- ~~~
SELECT pg_sleep(0)
-- ~~~
SELECT version(), pg_backend_pid(), current_setting('server_version_num')::int
-- ~~~
SELECT * FROM pg_stat_activity
-- ~~~
SELECT stats_reset, pg_stat_get_db_stat_reset_time(datid) FROM pg_stat_database
-- ~~~
SELECT relname, n_live_tup FROM pg_stat_user_tables
-- ~~~
SELECT * FROM information_schema.columns WHERE table_name = 'accounts'
-- ~~~
SELECT * FROM information_schema.table_privileges LIMIT 5
-- ~~~
SELECT relname, reltuples FROM pg_catalog.pg_class WHERE relname !~ '^pg_'
-- ~~~
SELECT pg_get_viewdef('totals'::regclass), pg_get_indexdef('accounts_pkey'::regclass), pg_get_constraintdef(oid) FROM pg_constraint LIMIT 1
-- ~~~
SELECT pg_get_functiondef('deposit'::regproc)
-- ~~~
SELECT 'pg_read_file(text)'::regprocedure, to_regproc('lastval')
-- ~~~
SELECT proname FROM pg_proc WHERE proname = 'pg_read_file'
-- ~~~
SELECT last_value FROM tickets
-- ~~~
SELECT * FROM pg_sequences
-- ~~~
SELECT pg_current_xact_id_if_assigned(), txid_current_if_assigned(), pg_current_snapshot()
-- ~~~
SELECT pg_is_in_recovery(), pg_current_wal_lsn(), pg_last_wal_replay_lsn()
-- ~~~
SELECT * FROM pg_replication_slots
-- ~~~
SELECT * FROM pg_locks
-- ~~~
SELECT * FROM pg_settings WHERE name LIKE 'work%'
-- ~~~
SELECT has_table_privilege('accounts', 'UPDATE'), has_schema_privilege('public', 'CREATE')
-- ~~~
SELECT obj_description('accounts'::regclass), col_description('accounts'::regclass, 1)
-- ~~~
SELECT setseed(0.5)
-- ~~~
SELECT * FROM totals
-- ~~~
SELECT Größe, größer AS "Größe in m²" FROM (SELECT 1 AS größe, 2 AS größer) s
-- ~~~
SELECT 'ü' AS 名前, '日本' AS "ключ"
-- ~~~
SELECT	1
	,2
-- ~~~
SELECT owner FROM accounts WHERE owner = 'x' OR 1 = 1 --'
-- ~~~
SELECT sum(CASE WHEN balance > 0 THEN balance ELSE 0 END)::numeric(12, 2) AS "sum; total" FROM accounts
-- ~~~
SELECT date_trunc('month', t), count(*) FROM generate_series(timestamp '2026-01-01', '2026-03-01', '1 day') t GROUP BY 1 ORDER BY 1
-- ~~~
SELECT width_bucket(balance, 0, 100, 5), ntile(2) OVER (ORDER BY id) FROM accounts
-- ~~~
SELECT corr(id, balance), regr_slope(id, balance), stddev(balance) FROM accounts
-- ~~~
SELECT regexp_matches('a1b2', '\d', 'g'), regexp_replace('abc', 'b', 'x'), split_part('a,b', ',', 2)
-- ~~~
SELECT * FROM accounts WHERE (owner, kind) IN (SELECT owner, kind FROM accounts)
-- ~~~
SELECT * FROM accounts WHERE id = ANY ('{1,2}'::int[]) AND NOT EXISTS (SELECT FROM accounts b WHERE b.id = accounts.id + 100)
-- ~~~
SELECT encode('\xdeadbeef'::bytea, 'hex'), decode('aa', 'hex'), md5('a'), sha256('a')
-- ~~~
SELECT moods.* FROM unnest(enum_range(NULL::mood)) moods
-- ~~~
SELECT a.upper, ('abc'::text).length FROM unnest(ARRAY['x']) a
-- ~~~
SELECT sum(l.lo_revenue), l.http FROM (SELECT 1 AS lo_revenue, 2 AS http) l GROUP BY l.http
-- ~~~
SELECT a.id AS "pg_read_file(", a.owner || ' (' || a.kind || ')' FROM accounts a
-- ~~~
SELECT doubled(2), calm.doubled(2), a.label, (a).label FROM accounts a
-- ~~~
SELECT calm.total(balance) FROM accounts
-- ~~~
SELECT round(1.5), round(1.5, 1), pg_catalog.lower('A'), lower('A')
-- ~~~
SELECT * FROM calm_view
-- ~~~
SELECT 1 AS write_visible, write_out FROM (SELECT 2 AS write_out) s
-- ~~~
SELECT write_visible FROM (SELECT 1 AS write_visible) s WHERE write_visible IN (1, 2)
-- ~~~
SELECT gen_random_bytes(4), crypt('a', gen_salt('bf')), normal_rand(1, 0, 1)
-- ~~~
SELECT * FROM pg_buffercache LIMIT 1
-- ~~~
SELECT 1 ==== 2, 5::small
-- ~~~
SELECT writing_twice FROM (SELECT 1 AS writing_twice) s
-- ~~~
SELECT a FROM notes WHERE a IS NOT NULL AND (a).t LIKE 'a%'
-- ~~~
SELECT 1 WHERE 1 IN (1, 2) AND 2 BETWEEN 1 AND 3 AND 'a' = 'a'
