"""SQL over files: which statements are for files, and what is said where that cannot be."""

import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import sandbox  # noqa: E402
import sandbox_files  # noqa: E402


class TestWhatIsForFiles(unittest.TestCase):
    def test_a_path_behind_from_or_join(self):
        for query, files in {
            "select * from 'a.csv'": ["a.csv"],
            "SELECT * FROM\n 'output/it''s.Parquet' x JOIN 'b.jsonl' USING (id)": ["output/it's.Parquet", "b.jsonl"],
            "with x as (select * from '*.csv.gz') select * from x": ["*.csv.gz"],
            "select (select max(n) from 'a.tsv')": ["a.tsv"],
            "select * from 'a.csv' a, 'b.csv' b where a.x in ('c.csv', 'd.csv') order by 1, 'e.csv'": ["a.csv", "b.csv"],
            "select * from 'a.csv' a join t on t.x = any(['b.csv', 'c.csv']), 'd.csv' d": ["a.csv", "d.csv"],
            "select 'x', 'a.csv' from orders": [],
            "select * from orders where name = 'a.csv'": [],
            "select 'x' from orders -- from 'a.csv'": [],
            "select 'it''s from ''a.csv''' from orders /* from 'a.csv' */": [],
            "select * from orders where x is distinct from 'a.csv'": [],
            "select trim(leading 'a' from 'a.csv'), extract(year from '2026.csv'), substring('b' from 'a.csv')": [],
            'select * from "a.csv"': [],
            "select * from 'orders'": [],
            "select \"from 'a.csv'\" from orders": [],
        }.items():
            with self.subTest(query):
                self.assertEqual(sandbox_files.find(query)[0], files)
                self.assertEqual(sandbox_files.choose(query, None), bool(files))
                self.assertTrue(sandbox_files.choose(query, "Files"))

    def test_names_that_tables_have(self):
        _, names = sandbox_files.find('select a.x from orders a, more join "large one" using (id), (select 1 from inner_one)')
        self.assertEqual(names, ["orders", "more", "large one", "inner_one"])

    def test_a_file_and_a_database_exclude_each_other(self):
        with self.assertRaises(sandbox.SQLError) as refused:
            sandbox.sql("select * from 'a.csv'", connection="shop")
        self.assertEqual(refused.exception.code, "sql_rejected")
        self.assertIn("connection='shop'", refused.exception.hint)
        self.assertIn("from rows join 'a.csv' using", refused.exception.hint)
        self.assertFalse(sandbox_files.choose("select * from orders", "shop"))


class TestFiles(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.enterContext(mock.patch.object(sandbox_files, "_DATA", self.folder))

    def test_one_that_duckdb_does_not_read(self):
        for name, way in ("a.db", "sqlite3.connect"), ("a.DuckDB", "read_only=True"), ("a.xlsx", "read_excel"), ("a.feather", "read_feather"):
            open(name, "w").close()
            with self.subTest(name), self.assertRaises(sandbox.SQLError) as refused:
                sandbox.sql("select * from '%s'" % name)
            self.assertEqual(refused.exception.code, "sql_rejected")
            self.assertIn(way, refused.exception.hint)

    def test_one_that_is_not_there(self):
        open("rates.csv", "w").close()
        for path, code, said in (("rate.csv", "not_found", "rates.csv"), ("https://example.com/a.csv", "sql_rejected", "Download it first")):
            with self.assertRaises(sandbox.SQLError) as failed:
                sandbox.sql("select * from '%s'" % path)
            self.assertEqual(failed.exception.code, code)
            self.assertIn(said, failed.exception.hint)
        self.assertEqual(os.listdir("."), ["rates.csv"])

    def test_nothing_that_reads_them(self):
        open("a.csv", "w").close()
        with mock.patch("importlib.util.find_spec", return_value=None), self.assertRaises(sandbox.SQLError) as failed:
            sandbox.sql("select * from 'a.csv'")
        self.assertIn("pip install duckdb", failed.exception.hint)
        self.assertEqual(os.listdir("."), ["a.csv"])

    def test_what_a_dead_process_left_is_removed(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        here = sandbox_files._container()
        live = [".query-files-python-%s-%d-x" % (here, os.getpid()), ".query-files-javascript-%s-%d-x" % (here, ended.pid)]
        for name in live + [".query-files-python-%s-%d-x" % (here, ended.pid), ".query-files-python-x%s-%d-x" % (here, os.getpid()), ".query-files-python-"]:
            os.mkdir(name)
        os.rmdir(sandbox_files._folder())
        self.assertEqual(sorted(os.listdir(".")), sorted(live))


class TestLimits(unittest.TestCase):
    def test_they_are_the_containers(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIsNone(sandbox_files.memory(root))
            for memory, want in (("1073741824", 1 << 30), ("max", None), ("9223372036854771712", None)):
                with open(os.path.join(root, "memory.max"), "w") as file:
                    file.write(memory + "\n")
                self.assertEqual(sandbox_files.memory(root), want)


if __name__ == "__main__":
    unittest.main()
