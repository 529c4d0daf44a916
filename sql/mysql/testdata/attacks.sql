INSERT INTO accounts VALUES (9, 'x', 'glad', 1)
-- ~~~
INSERT accounts SET id = 9
-- ~~~
REPLACE INTO accounts VALUES (1, 'x', 'glad', 1)
-- ~~~
UPDATE accounts SET balance = 0
-- ~~~
UPDATE accounts SET balance = 0 LIMIT 1
-- ~~~
DELETE FROM accounts
-- ~~~
DELETE FROM accounts RETURNING id
-- ~~~
DELETE a FROM accounts a JOIN accounts b USING (id)
-- ~~~
TRUNCATE accounts
-- ~~~
TRUNCATE TABLE accounts
-- ~~~
CREATE TABLE copy AS SELECT * FROM accounts
-- ~~~
CREATE TABLE copy (id INT)
-- ~~~
CREATE TEMPORARY TABLE copy (id INT)
-- ~~~
CREATE DATABASE other
-- ~~~
CREATE USER thief
-- ~~~
CREATE VIEW spy AS SELECT 1
-- ~~~
CREATE INDEX i ON accounts (owner)
-- ~~~
CREATE FUNCTION f() RETURNS INT RETURN 1
-- ~~~
CREATE PROCEDURE p() SELECT 1
-- ~~~
CREATE TRIGGER t BEFORE INSERT ON accounts FOR EACH ROW SET NEW.id = 1
-- ~~~
CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1
-- ~~~
CREATE SEQUENCE s2
-- ~~~
CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1')
-- ~~~
CREATE ROLE r
-- ~~~
CREATE FUNCTION sys_exec RETURNS INT SONAME 'lib_mysqludf_sys.so'
-- ~~~
ALTER TABLE accounts ADD c INT
-- ~~~
ALTER DATABASE shop CHARACTER SET latin1
-- ~~~
ALTER USER root@localhost IDENTIFIED BY 'x'
-- ~~~
DROP TABLE accounts
-- ~~~
DROP DATABASE shop
-- ~~~
DROP USER root@localhost
-- ~~~
DROP FUNCTION deposit
-- ~~~
RENAME TABLE accounts TO others
-- ~~~
RENAME USER root@localhost TO thief@localhost
-- ~~~
GRANT ALL ON *.* TO root@localhost
-- ~~~
REVOKE ALL ON *.* FROM root@localhost
-- ~~~
SET GLOBAL max_connections = 77
-- ~~~
SET @@global.max_connections = 77
-- ~~~
SET SESSION transaction_read_only = 0
-- ~~~
SET SESSION TRANSACTION READ WRITE
-- ~~~
SET TRANSACTION READ WRITE
-- ~~~
SET tx_read_only = 0
-- ~~~
SET sql_mode = 'ANSI_QUOTES'
-- ~~~
SET autocommit = 1
-- ~~~
SET PASSWORD = PASSWORD('x')
-- ~~~
SET ROLE NONE
-- ~~~
SET STATEMENT max_statement_time = 0 FOR SELECT 1
-- ~~~
SET STATEMENT tx_read_only = 0 FOR UPDATE accounts SET balance = 0
-- ~~~
SET @a = 1
-- ~~~
SET NAMES gbk
-- ~~~
START TRANSACTION
-- ~~~
START TRANSACTION READ WRITE
-- ~~~
BEGIN
-- ~~~
BEGIN WORK
-- ~~~
BEGIN NOT ATOMIC UPDATE accounts SET balance = 0; END
-- ~~~
COMMIT
-- ~~~
COMMIT AND CHAIN
-- ~~~
ROLLBACK
-- ~~~
SAVEPOINT a
-- ~~~
RELEASE SAVEPOINT a
-- ~~~
XA START 'a'
-- ~~~
XA RECOVER
-- ~~~
LOCK TABLES accounts WRITE
-- ~~~
LOCK TABLES accounts READ
-- ~~~
UNLOCK TABLES
-- ~~~
FLUSH TABLES
-- ~~~
FLUSH TABLES WITH READ LOCK
-- ~~~
FLUSH PRIVILEGES
-- ~~~
FLUSH LOGS
-- ~~~
RESET MASTER
-- ~~~
RESET QUERY CACHE
-- ~~~
PURGE BINARY LOGS TO 'x'
-- ~~~
CHANGE MASTER TO MASTER_HOST = 'x'
-- ~~~
START SLAVE
-- ~~~
STOP SLAVE
-- ~~~
KILL 1
-- ~~~
KILL QUERY 1
-- ~~~
KILL USER root
-- ~~~
SHUTDOWN
-- ~~~
RESTART
-- ~~~
HANDLER accounts OPEN
-- ~~~
HANDLER accounts READ FIRST
-- ~~~
CALL empty_accounts()
-- ~~~
DO SLEEP(0)
-- ~~~
DO GET_LOCK('thief', 0)
-- ~~~
PREPARE s FROM 'DELETE FROM accounts'
-- ~~~
EXECUTE s
-- ~~~
EXECUTE IMMEDIATE 'DELETE FROM accounts'
-- ~~~
DEALLOCATE PREPARE s
-- ~~~
LOAD DATA INFILE '/etc/passwd' INTO TABLE accounts
-- ~~~
LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE accounts
-- ~~~
LOAD XML LOCAL INFILE '/etc/passwd' INTO TABLE accounts
-- ~~~
LOAD INDEX INTO CACHE accounts
-- ~~~
CACHE INDEX accounts IN hot
-- ~~~
ANALYZE TABLE accounts
-- ~~~
ANALYZE LOCAL TABLE accounts
-- ~~~
ANALYZE UPDATE accounts SET balance = 0
-- ~~~
ANALYZE FORMAT=JSON DELETE FROM accounts
-- ~~~
ANALYZE INSERT INTO accounts VALUES (9, 'x', 'glad', 1)
-- ~~~
EXPLAIN UPDATE accounts SET balance = 0
-- ~~~
EXPLAIN DELETE FROM accounts
-- ~~~
EXPLAIN REPLACE INTO accounts VALUES (1, 'x', 'glad', 1)
-- ~~~
EXPLAIN INSERT INTO accounts VALUES (9, 'x', 'glad', 1)
-- ~~~
EXPLAIN FOR CONNECTION 1
-- ~~~
EXPLAIN ANALYZE DELETE FROM accounts
-- ~~~
OPTIMIZE TABLE accounts
-- ~~~
REPAIR TABLE accounts
-- ~~~
CHECK TABLE accounts
-- ~~~
CHECKSUM TABLE accounts
-- ~~~
BACKUP STAGE START
-- ~~~
BACKUP LOCK accounts
-- ~~~
BINLOG 'x'
-- ~~~
INSTALL PLUGIN x SONAME 'x.so'
-- ~~~
INSTALL SONAME 'x'
-- ~~~
UNINSTALL PLUGIN x
-- ~~~
USE mysql
-- ~~~
SIGNAL SQLSTATE '45000'
-- ~~~
RESIGNAL
-- ~~~
GET DIAGNOSTICS @a = NUMBER
-- ~~~
RETURN 1
-- ~~~
IF 1 THEN DELETE FROM accounts; END IF
-- ~~~
FOR i IN 1..2 DO DELETE FROM accounts; END FOR
-- ~~~
WITH x AS (SELECT 1) DELETE FROM accounts
-- ~~~
WITH x AS (SELECT 1) UPDATE accounts SET balance = 0
-- ~~~
WITH x AS (SELECT 1) INSERT INTO accounts SELECT 9, 'x', 'glad', 1
-- ~~~
SELECT 'x' INTO OUTFILE '{dir}/stolen1'
-- ~~~
SELECT 'x' INTO DUMPFILE '{dir}/stolen2'
-- ~~~
SELECT * INTO OUTFILE '{dir}/stolen3' FROM accounts
-- ~~~
SELECT * FROM accounts INTO OUTFILE '{dir}/stolen4'
-- ~~~
(SELECT 1) INTO OUTFILE '{dir}/stolen5'
-- ~~~
SELECT 1 UNION SELECT 2 INTO OUTFILE '{dir}/stolen6'
-- ~~~
SELECT 1.INTO OUTFILE '{dir}/stolen7'
-- ~~~
SELECT 1e5INTO OUTFILE '{dir}/stolen8'
-- ~~~
SELECT 1/**/INTO/**/OUTFILE/**/'{dir}/stolen9'
-- ~~~
SELECT 1 iNtO oUtFiLe '{dir}/stolen10'
-- ~~~
SELECT 1 /*! INTO OUTFILE '{dir}/stolen11' */
-- ~~~
SELECT 1 /*!50000 INTO OUTFILE '{dir}/stolen12' */
-- ~~~
SELECT 1 /*M! INTO OUTFILE '{dir}/stolen13' */
-- ~~~
SELECT 1 /*M!100100 INTO OUTFILE '{dir}/stolen14' */
-- ~~~
SELECT 'a\'' INTO OUTFILE '{dir}/stolen15'
-- ~~~
SELECT 'a\\' INTO OUTFILE '{dir}/stolen16'
-- ~~~
SELECT "a\"" INTO OUTFILE "{dir}/stolen17"
-- ~~~
SELECT 'a''b' INTO OUTFILE '{dir}/stolen18'
-- ~~~
SELECT `id`INTO OUTFILE '{dir}/stolen19' FROM accounts
-- ~~~
SELECT id FROM accounts a WHERE a. id = 1 INTO OUTFILE '{dir}/stolen20'
-- ~~~
SELECT 1 --1 INTO OUTFILE '{dir}/stolen21'
-- ~~~
SELECT 1 -- '
INTO OUTFILE '{dir}/stolen22'
-- ~~~
SELECT 1 # '
INTO OUTFILE '{dir}/stolen23'
-- ~~~
VALUES (1) INTO OUTFILE '{dir}/stolen24'
-- ~~~
TABLE accounts INTO OUTFILE '{dir}/stolen25'
-- ~~~
SELECT 0x1 INTO OUTFILE '{dir}/stolen26'
-- ~~~
SELECT .5INTO OUTFILE '{dir}/stolen27'
-- ~~~
SELECT _utf8mb4'a'INTO OUTFILE '{dir}/stolen28'
-- ~~~
SELECT N'a\''INTO OUTFILE '{dir}/stolen29'
-- ~~~
SELECT 1 /* */ INTO OUTFILE '{dir}/stolen30'
-- ~~~
SELECT 1 /*/ INTO OUTFILE '{dir}/stolen31' /*/ INTO OUTFILE '{dir}/stolen31'
-- ~~~
SELECT 1 INTO @a
-- ~~~
SELECT 1 INTO @`a`
-- ~~~
SELECT id INTO a FROM accounts LIMIT 1
-- ~~~
SELECT @a := 1
-- ~~~
SELECT @a
-- ~~~
SELECT @'a'
-- ~~~
SELECT LOAD_FILE('/etc/passwd')
-- ~~~
SELECT load_file ('/etc/passwd')
-- ~~~
SELECT `load_file`('/etc/passwd')
-- ~~~
SELECT `LOAD_FILE`/**/('/etc/passwd')
-- ~~~
SELECT lôad_file('/etc/passwd')
-- ~~~
SELECT LENGTH(LOAD_FILE('/etc/passwd')) > 0
-- ~~~
SELECT 1 FROM accounts WHERE LOAD_FILE('/etc/passwd') LIKE 'root%'
-- ~~~
SELECT GET_LOCK('thief', 0)
-- ~~~
SELECT `get_lock`('thief', 0)
-- ~~~
SELECT RELEASE_LOCK('thief')
-- ~~~
SELECT RELEASE_ALL_LOCKS()
-- ~~~
SELECT IF(1, GET_LOCK('thief', 0), 0)
-- ~~~
SELECT * FROM locking
-- ~~~
SELECT l + 1 FROM shop.locking_twice
-- ~~~
SELECT 0x()
-- ~~~
SELECT 0b2()
-- ~~~
SELECT 0b12 FROM accounts
-- ~~~
SELECT sys_exec('id')
-- ~~~
SELECT sys_eval('id')
-- ~~~
SELECT http_get('http://127.0.0.1/')
-- ~~~
SELECT spider_direct_sql('DELETE FROM a', '', 'srv "s"')
-- ~~~
SELECT NEXTVAL(tickets)
-- ~~~
SELECT NEXT VALUE FOR tickets
-- ~~~
SELECT SETVAL(tickets, 900)
-- ~~~
SELECT * FROM accounts FOR UPDATE
-- ~~~
SELECT * FROM accounts FOR SHARE
-- ~~~
SELECT * FROM accounts LOCK IN SHARE MODE
-- ~~~
SELECT * FROM accounts FOR/**/UPDATE SKIP LOCKED
-- ~~~
SELECT * FROM (SELECT * FROM accounts FOR UPDATE) x
-- ~~~
SELECT deposit(1)
-- ~~~
SELECT `deposit`(1)
-- ~~~
SELECT shop.deposit(1)
-- ~~~
SELECT shop . deposit (1)
-- ~~~
SELECT shop.`deposit`(1)
-- ~~~
SELECT raise_limit()
-- ~~~
SELECT raise_limit ()
-- ~~~
SELECT write_out()
-- ~~~
SELECT * FROM accounts WHERE write_out() = 1
-- ~~~
SELECT * FROM accounts ORDER BY raise_limit()
-- ~~~
SELECT * FROM writing
-- ~~~
SELECT * FROM shop.writing
-- ~~~
SELECT * FROM `writing_twice`
-- ~~~
SHOW TABLES FROM shop WHERE raise_limit() = 1
-- ~~~
SHOW TABLES WHERE LOAD_FILE('/etc/passwd') IS NOT NULL
-- ~~~
SHOW GRANTS
-- ~~~
SHOW GRANTS FOR root@localhost
-- ~~~
SHOW CREATE USER root@localhost
-- ~~~
EXPLAIN SELECT raise_limit()
-- ~~~
DESCRIBE SELECT raise_limit()
-- ~~~
ANALYZE SELECT raise_limit()
-- ~~~
EXPLAIN SELECT * FROM writing
-- ~~~
EXPLAIN accounts INTO OUTFILE '{dir}/stolen40'
-- ~~~
SELECT /*+ SET_VAR(max_execution_time = 0) */ 1
-- ~~~
SELECT 1; SELECT 2
-- ~~~
SELECT 1; DELETE FROM accounts
-- ~~~
SELECT 1;;DELETE FROM accounts
-- ~~~
; DELETE FROM accounts
-- ~~~
SELECT $$ INTO $$
-- ~~~
SELECT 1 LIMIT ROWS EXAMINED 1 INTO OUTFILE '{dir}/stolen41'
-- ~~~
SELECT * FROM accounts PROCEDURE ANALYSE() INTO OUTFILE '{dir}/stolen42'
-- ~~~
SELECT {d '2026-01-01'} INTO OUTFILE '{dir}/stolen43'
-- ~~~
SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (v INT PATH '$')) t INTO OUTFILE '{dir}/stolen44'
-- ~~~
(SELECT 1 FROM accounts FOR UPDATE)
-- ~~~
HELP 'select'
-- ~~~
DELIMITER //
-- ~~~
\! id
-- ~~~
source /etc/passwd
