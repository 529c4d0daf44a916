SELECT 1
-- ~~~
SELECT * FROM accounts
-- ~~~
select id, owner from accounts where balance > 5 order by id desc limit 2
-- ~~~
SELECT a.id, b.owner FROM accounts a JOIN accounts b ON a.id = b.id
-- ~~~
SELECT a.id FROM accounts AS a LEFT JOIN accounts AS b USING (id) WHERE b.id IS NULL
-- ~~~
SELECT COUNT(*), SUM(balance), AVG(balance) FROM accounts GROUP BY owner HAVING COUNT(*) > 0
-- ~~~
SELECT owner, SUM(balance) OVER (PARTITION BY owner ORDER BY id) FROM accounts
-- ~~~
WITH rich AS (SELECT * FROM accounts WHERE balance > 5) SELECT * FROM rich
-- ~~~
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n
-- ~~~
(SELECT 1) UNION ALL (SELECT 2)
-- ~~~
SELECT 1 UNION SELECT 2 ORDER BY 1
-- ~~~
SELECT 1 EXCEPT SELECT 2
-- ~~~
SELECT 1 INTERSECT SELECT 1
-- ~~~
VALUES (1), (2)
-- ~~~
SELECT 'it''s', "a ""text""", 'a\'b', '\\', N'n', x'4142', b'01', 0xFF, 0b10, _utf8mb4'x'
-- ~~~
SELECT 'INTO OUTFILE', "; DELETE FROM accounts", 'FOR UPDATE' FROM accounts
-- ~~~
SELECT 'GET_LOCK(1)' AS `load_file`
-- ~~~
SELECT `update`, `into`, `for` FROM words
-- ~~~
SELECT w.update, w.into, w.delete FROM words w
-- ~~~
SELECT w.`update` FROM words AS w
-- ~~~
SELECT 1 AS `INTO`
-- ~~~
SELECT 1 -- INTO OUTFILE 'x'
-- ~~~
SELECT 1 # DELETE FROM accounts
-- ~~~
SELECT /* INTO OUTFILE */ 1
-- ~~~
SELECT 1 /* a * b / c */
-- ~~~
SELECT 1 --1
-- ~~~
SELECT 5--5
-- ~~~
SELECT -1, - 1, +1, 1.5, .5, 1., 1e5, 1.5E-3, -2e+2
-- ~~~
SELECT 1 + 2 * 3 / 4 % 5, 7 DIV 2, 7 MOD 2, 1 << 2, 8 >> 1, 5 & 3, 5 | 3, 5 ^ 3, ~1
-- ~~~
SELECT 1 = 1, 1 <> 2, 1 != 2, 1 < 2, 1 <= 2, 1 > 0, 1 >= 0, 1 <=> NULL, NOT 1, ! 0
-- ~~~
SELECT 1 AND 0, 1 OR 0, 1 XOR 0, 1 && 0
-- ~~~
SELECT NULL IS NULL, NULL IS NOT NULL, TRUE, FALSE, UNKNOWN IS NULL FROM (SELECT NULL AS UNKNOWN) u
-- ~~~
SELECT * FROM accounts WHERE owner LIKE 'an%' AND owner REGEXP '^a' AND owner RLIKE 'a'
-- ~~~
SELECT * FROM accounts WHERE id IN (1, 2) AND id BETWEEN 1 AND 3
-- ~~~
SELECT * FROM accounts WHERE EXISTS (SELECT 1 FROM accounts b WHERE b.id > 1)
-- ~~~
SELECT * FROM accounts WHERE id = ANY (SELECT id FROM accounts)
-- ~~~
SELECT CASE WHEN id = 1 THEN 'one' ELSE 'more' END FROM accounts
-- ~~~
SELECT IF(id = 1, 'a', 'b'), IFNULL(balance, 0), NULLIF(id, 1), COALESCE(balance, 0) FROM accounts
-- ~~~
SELECT CAST('1' AS SIGNED), CAST(1 AS CHAR), CAST('1.5' AS DECIMAL(10, 2)), CONVERT('a' USING utf8mb4)
-- ~~~
SELECT INSERT('abc', 1, 1, 'x'), REPLACE('abc', 'a', 'b')
-- ~~~
SELECT insert ('abc', 1, 1, 'x')
-- ~~~
SELECT SUBSTRING('abc' FROM 2 FOR 1), TRIM(LEADING 'x' FROM 'xa'), EXTRACT(YEAR FROM '2026-01-01')
-- ~~~
SELECT CONCAT('a', 'b'), CONCAT_WS(',', 'a', 'b'), GROUP_CONCAT(owner ORDER BY id SEPARATOR ';') FROM accounts
-- ~~~
SELECT NOW(), CURRENT_DATE, CURRENT_TIMESTAMP(3), UTC_TIMESTAMP(), UNIX_TIMESTAMP()
-- ~~~
SELECT DATE_ADD('2026-01-01', INTERVAL 1 DAY), '2026-01-01' + INTERVAL 1 MONTH
-- ~~~
SELECT DATE '2026-01-01', TIME '01:02:03', TIMESTAMP '2026-01-01 00:00:00'
-- ~~~
SELECT {d '2026-01-01'}
-- ~~~
SELECT DATABASE(), USER(), VERSION(), CONNECTION_ID(), LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS()
-- ~~~
SELECT @@version, @@global.max_connections, @@session.sql_mode
-- ~~~
SELECT IS_FREE_LOCK('x'), IS_USED_LOCK('x')
-- ~~~
SELECT SLEEP(0), BENCHMARK(1, 1), UUID(), RAND(1)
-- ~~~
SELECT JSON_EXTRACT('{"a": 1}', '$.a'), JSON_OBJECT('a', 1), JSON_ARRAY(1, 2)
-- ~~~
SELECT JSON_VALUE('{"a": 1}', '$.a')
-- ~~~
SELECT * FROM JSON_TABLE('[1, 2]', '$[*]' COLUMNS (v INT PATH '$')) AS t
-- ~~~
SELECT HEX('a'), UNHEX('61'), MD5('a'), SHA2('a', 256), CRC32('a'), TO_BASE64('a')
-- ~~~
SELECT ST_AsText(POINT(1, 2)), ST_X(POINT(1, 2))
-- ~~~
SELECT DISTINCT owner FROM accounts
-- ~~~
SELECT ALL owner FROM accounts
-- ~~~
SELECT DISTINCTROW owner FROM accounts
-- ~~~
SELECT SQL_NO_CACHE STRAIGHT_JOIN 1
-- ~~~
SELECT STRAIGHT_JOIN a.id FROM accounts a STRAIGHT_JOIN accounts b ON a.id = b.id
-- ~~~
SELECT * FROM accounts NATURAL JOIN accounts b
-- ~~~
SELECT * FROM accounts a CROSS JOIN accounts b LIMIT 1 OFFSET 1
-- ~~~
SELECT * FROM accounts LIMIT 1, 2
-- ~~~
SELECT * FROM accounts USE INDEX (PRIMARY)
-- ~~~
SELECT * FROM accounts USE INDEX FOR JOIN (PRIMARY)
-- ~~~
SELECT * FROM accounts FORCE INDEX FOR ORDER BY (PRIMARY) ORDER BY id
-- ~~~
SELECT * FROM accounts IGNORE INDEX (PRIMARY)
-- ~~~
SELECT * FROM shop.accounts
-- ~~~
SELECT * FROM `shop`.`accounts`
-- ~~~
SELECT * FROM shop . accounts
-- ~~~
SELECT shop.accounts.id FROM shop.accounts
-- ~~~
SELECT accounts.* FROM accounts
-- ~~~
SELECT * FROM totals
-- ~~~
SELECT * FROM shop.totals
-- ~~~
SELECT * FROM (SELECT 1 AS a) x
-- ~~~
SELECT * FROM (SELECT 1 AS a UNION SELECT 2) x WHERE a > 1
-- ~~~
SELECT (SELECT MAX(id) FROM accounts) AS m
-- ~~~
SELECT ROW(1, 2) = ROW(1, 2), (1, 2) IN ((1, 2))
-- ~~~
SELECT * FROM accounts GROUP BY owner WITH ROLLUP
-- ~~~
SELECT owner, COUNT(*) FROM accounts GROUP BY owner WITH ROLLUP
-- ~~~
SELECT FIRST_VALUE(id) OVER w, ROW_NUMBER() OVER w FROM accounts WINDOW w AS (ORDER BY id)
-- ~~~
SELECT SUM(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM accounts
-- ~~~
SELECT id FROM accounts ORDER BY FIELD(owner, 'bert', 'anna')
-- ~~~
SELECT id AS größe FROM accounts
-- ~~~
SELECT '日本', `größe` FROM (SELECT 1 AS `größe`) x
-- ~~~
SELECT owner COLLATE utf8mb4_bin FROM accounts
-- ~~~
SELECT BINARY 'a' = 'A'
-- ~~~
SELECT 'a' 'b'
-- ~~~
SELECT 1;
-- ~~~
SELECT 1 ; ;
-- ~~~
SELECT * FROM information_schema.tables LIMIT 1
-- ~~~
SELECT TABLE_NAME FROM information_schema.columns LIMIT 1
-- ~~~
SELECT * FROM performance_schema.global_status LIMIT 1
-- ~~~
SHOW TABLES
-- ~~~
SHOW FULL TABLES FROM shop
-- ~~~
SHOW TABLES LIKE 'acc%'
-- ~~~
SHOW TABLES WHERE Tables_in_shop = 'accounts'
-- ~~~
SHOW COLUMNS FROM accounts
-- ~~~
SHOW FULL COLUMNS FROM accounts FROM shop
-- ~~~
SHOW INDEX FROM accounts
-- ~~~
SHOW CREATE TABLE accounts
-- ~~~
SHOW CREATE VIEW totals
-- ~~~
SHOW CREATE DATABASE shop
-- ~~~
SHOW CREATE FUNCTION deposit
-- ~~~
SHOW DATABASES
-- ~~~
SHOW SCHEMAS LIKE 's%'
-- ~~~
SHOW STATUS LIKE 'Threads%'
-- ~~~
SHOW GLOBAL VARIABLES LIKE 'max_conn%'
-- ~~~
SHOW VARIABLES LIKE 'version'
-- ~~~
SHOW PROCESSLIST
-- ~~~
SHOW WARNINGS
-- ~~~
SHOW ERRORS
-- ~~~
SHOW ENGINES
-- ~~~
SHOW TABLE STATUS
-- ~~~
SHOW TRIGGERS
-- ~~~
SHOW EVENTS
-- ~~~
SHOW CHARACTER SET
-- ~~~
SHOW COLLATION LIKE 'utf8mb4%'
-- ~~~
SHOW FUNCTION STATUS
-- ~~~
SHOW PLUGINS
-- ~~~
SHOW ENGINE INNODB STATUS
-- ~~~
DESCRIBE accounts
-- ~~~
DESC accounts owner
-- ~~~
DESC `accounts`
-- ~~~
EXPLAIN accounts
-- ~~~
EXPLAIN SELECT * FROM accounts
-- ~~~
EXPLAIN EXTENDED SELECT * FROM accounts
-- ~~~
EXPLAIN PARTITIONS SELECT * FROM accounts
-- ~~~
EXPLAIN FORMAT=JSON SELECT * FROM accounts
-- ~~~
EXPLAIN FORMAT = JSON SELECT * FROM accounts
-- ~~~
EXPLAIN WITH x AS (SELECT 1) SELECT * FROM x
-- ~~~
EXPLAIN (SELECT 1)
-- ~~~
ANALYZE SELECT * FROM accounts
-- ~~~
ANALYZE FORMAT=JSON SELECT * FROM accounts
-- ~~~
SELECT * FROM accounts WHERE owner = 'anna' AND (kind = 'glad' OR balance IS NULL)
-- ~~~
SELECT LEFT(owner, 1), RIGHT(owner, 1), CHAR_LENGTH(owner), UPPER(owner), LOWER(owner) FROM accounts
-- ~~~
SELECT DATE_FORMAT('2026-01-01', '%Y-%m'), STR_TO_DATE('01.02.2026', '%d.%m.%Y')
-- ~~~
SELECT TIMESTAMPDIFF(DAY, '2026-01-01', '2026-02-01'), LAST_DAY('2026-02-01')
-- ~~~
SELECT ROUND(1.5), FLOOR(1.5), CEIL(1.5), TRUNCATE(1.55, 1), ABS(-1), POW(2, 3), LOG(2)
-- ~~~
SELECT GREATEST(1, 2), LEAST(1, 2), BIT_COUNT(5), CONV('ff', 16, 10)
-- ~~~
SELECT DEFAULT(owner) FROM accounts
-- ~~~
SELECT MATCH(owner) AGAINST ('anna') FROM notes
-- ~~~
SELECT * FROM notes WHERE MATCH(owner) AGAINST ('+anna -bert' IN BOOLEAN MODE)
-- ~~~
SELECT STDDEV(balance), VARIANCE(balance), BIT_AND(id), MIN(id), MAX(id) FROM accounts
-- ~~~
SELECT JSON_ARRAYAGG(id), JSON_OBJECTAGG(id, owner) FROM accounts
-- ~~~
SELECT PERCENT_RANK() OVER (ORDER BY id), NTILE(2) OVER (ORDER BY id), LAG(id) OVER (ORDER BY id) FROM accounts
-- ~~~
SELECT FORMAT(1234.5, 2), LPAD('a', 3, '0'), REVERSE('abc'), INSTR('abc', 'b'), LOCATE('b', 'abc')
-- ~~~
SELECT safe_total(1)
-- ~~~
SELECT shop.safe_total(1)
-- ~~~
SELECT * FROM allowed_view
-- ~~~
SELECT 1 FROM dual
-- ~~~
SELECT 1 FROM accounts WHERE 1 = 1 PROCEDURE ANALYSE()
-- ~~~
TABLE accounts
-- ~~~
VALUES ROW(1, 2)
-- ~~~
EXPLAIN ANALYZE SELECT 1
-- ~~~
EXPLAIN FORMAT=TREE SELECT 1
