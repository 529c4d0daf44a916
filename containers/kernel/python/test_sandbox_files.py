"""SQL over files: which statements are for files, and what is said where that cannot be."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from test_support import can_import

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
            "select * from read_csv('a.csv', header=true) r join read_json(['b.json', 'c.json'], columns={x: 'd.csv'}) using (id)": ["a.csv", "b.json", "c.json"],
            "select read_csv('a.csv') from orders": [],
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
        for name, way in ("a.db", "sqlite3.connect"), ("a.DuckDB", "read_only=True"), ("a.xlsx", "read_excel"):
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


@unittest.skipUnless(can_import("duckdb"), "the image has the libraries")
class TestGuesses(unittest.TestCase):
    """What DuckDB takes a file for is held against the file."""

    def setUp(self):
        TestFiles.setUp(self)
        self.said = self.enterContext(mock.patch.object(sandbox_files, "print", create=True))

    def ask(self, query):
        self.said.reset_mock()
        frame = sandbox.sql(query)
        notes = " ".join(call.args[0] for call in self.said.mock_calls)
        return [["None" if str(value) in ("None", "nan", "<NA>") else str(value) for value in row] for row in frame.astype(object).values.tolist()], notes

    def test_a_file_is_read_as_it_is(self):
        late = 300_000  # rows, which are more than are looked at first
        cases = [  # a file's name, its text, a query with F for it, rows, and a part of the note
            ("late.csv", "a\n" + "1\n" * 2 * late + "1.6\n", "select max(a) from F", [["1.6"]], ""),
            ("wide.csv", "id,name\n1,ann\n2,bob\n3,cyd,extra\n", "select * from F", [["1", "ann", "None"], ["2", "bob", "None"], ["3", "cyd", "extra"]], "fewer fields"),
            ("total.csv", "id,name\n" + "1,ann\n" * 28 + "total,,28\n", "select count(*), max(name) from F", [["29", "ann"]], "fewer fields"),
            ("later.csv", "id,name\n" + "1,ann\n" * late + "2,bob,extra\n", "select count(*) from F", [[str(late + 1)]], "fewer fields"),
            ("all.csv", "id,name\n" + "1,ann\n" * late + "2,bob,extra\n", "select * from F where id = 2", [["2", "bob", "extra"]], "fewer fields"),
            ("code.csv", "code,day\n" + "1234,2026-01-02\n" * late + "00501,2026-01-02 17:45:00\n", "select min(code), max(day) from F", [["00501", "2026-01-02 17:45:00"]], ""),
            ("german.csv", "tag,n\n31.12.25,1\n15.03.26,2\n", "select tag::text from F", [["2025-12-31"], ["2026-03-15"]], "%y.%m.%d"),
            ("british.csv", "zeit\n15/03/26 10:00\n14/03/26 11:30\n", "select zeit::text from F", [["2026-03-15 10:00:00"], ["2026-03-14 11:30:00"]], "%y/%m/%d"),
            ("first.csv", "zeit\n99.12.31\n26.03.32\n", "select * from F", [["99.12.31"], ["26.03.32"]], ""),
            ("either.csv", "d\n03/04/2026\n", "select d::text from F", [["2026-04-03"]], "%m/%d/%Y"),
            ("short.csv", "a,b,c\n1\n2\n", "select a, c from F", [["1", "None"], ["2", "None"]], "fewer fields"),
            ("years.csv", "country,2019,2020\naustria,5,6\n", 'select country, "2020" from F', [["austria", "6"]], "first line"),
            ("rows.csv", "a,5,6\nb,5,7\n", "select count(*) from F", [["2"]], "first line"),
            ("title.csv", "Report\n\nid,name,x\n1,a,2\n2,b,3\n", "select id, x from F", [["1", "2"], ["2", "3"]], "left out"),
            ("remark.csv", "a,b\n#x\n1,2\n", "select * from F", [["1", "2"]], "left out"),
            ("ends.csv", "a,b\r\n1,2\n3,4\r\n", "select * from F", [["1", "2"], ["3", "4"]], ""),
            ("p.txt", "a;b\n1;2\n", "select b from F", [["2"]], ""),
            ("flag.csv", "sex\nF\nF\n", "select * from F", [["F"], ["F"]], "sex of F is text"),
            ("latin.csv", "Name;Ort\nMüller;Köln\n".encode("cp1252"), "select * from F", [["Müller", "Köln"]], "cp1252"),
            ("late-latin.csv", b"a\n" + b"x\n" * 2 * late + "ü\n".encode("cp1252"), "select max(a) from F", [["ü"]], "cp1252"),
            ("wide.tsv", "Name\tOrt\nMüller\tKöln\n".encode("utf-16"), "select * from F", [["Müller", "Köln"]], ""),
            ("late.jsonl", '{"a": 1}\n' * 2 * late + '{"a": 1.6}\n', "select max(a) from F", [["1.6"]], ""),
            ("deep.jsonl", '{"a": {"b": [1]}}\n' * late + '{"a": {"b": [1.6]}}\n', "select max(a.b[1]) from F", [["1.6"]], ""),
            ("field.jsonl", '{"a": 1}\n' * 2 * late + '{"a": 2, "error": "full"}\n', "select count(error) from F", [["1"]], ""),
            ("fields.jsonl", '{"a": 1}\n' * 2 * late + '{"a": 2, "error": "full"}\n', "select * from F where a = 2", [["2", "full"]], ""),
            ("gaps.jsonl", "".join('{"f%d": %d}\n' % (n, n) for n in range(300)), "select sum(f7), count(*) from F", [["7", "300"]], ""),
            ("day.json", '[{"day": "26-01-02"}]', "select day::text from F", [["2002-01-26"]], "%y-%m-%d"),
            ("unions?.csv", None, "select a, b, c from F", [["1", "2", "None"], ["x", "None", "3"]], ""),
            ("y=2026/a.csv", "n\n1\n", "select y, n, filename from F", [["2026", "1", "y=2026/a.csv"]], ""),
            ("named.csv", "n\n1\n", "with named as (select * from F) select named.n from named join F b on b.n = named.n", [["1"]], ""),
        ]
        os.mkdir("y=2026")
        for at, content in ("unions1.csv", "a,b\n1,2\n"), ("unions2.csv", "a,c\nx,3\n"):
            with open(at, "w") as file:
                file.write(content)
        for path, content, query, rows, note in cases:
            if content is not None:
                with open(path, "wb") as file:
                    file.write(content if isinstance(content, bytes) else content.encode())
            with self.subTest(path):
                got, notes = self.ask(query.replace("F", "'%s'" % path))
                self.assertEqual(got, rows)
                self.assertIn(note.replace("F", path), notes)
                self.assertTrue(note or not notes, notes)
                for line in re.findall(r"(?:select .*? from '[^']*'|read_(?:csv|json)\('[^)]*\)(?:, [^)]*\))?)", notes):
                    sandbox.sql(line if line.startswith("select") else "select * from " + line)
                self.assertEqual(self.ask(query.replace("F", "'%s'" % path)), (rows, ""), "the second time")

    def test_an_arrow_file_in_both_forms(self):
        import pyarrow

        table = pyarrow.table({"a": [1, 2]})
        for form in pyarrow.ipc.new_file, pyarrow.ipc.new_stream:
            with form("s.arrow", table.schema) as file:
                file.write_table(table)
            self.assertEqual(self.ask("select sum(a) from 's.arrow'")[0], [["3"]])


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
