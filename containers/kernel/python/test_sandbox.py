"""The module sandbox, where the image has no pandas: what it sends, and numbers as they are."""

import os
import sys
import unittest
from decimal import Decimal
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import sandbox  # noqa: E402


Missing = type("NAType", (), {})  # as pandas has for a value that is missing


class TestSandbox(unittest.TestCase):
    def query(self, params, line=b"{}", numbers=None):
        asked = {}

        def ask(request, out):
            asked.update(request)
            out.write(line + b"\n")
            return {"numbers": numbers}

        with mock.patch("importlib.util.find_spec", return_value=None), mock.patch.object(sandbox, "_ask", ask):
            return sandbox.sql("q", params), asked

    def test_numbers_are_never_other_ones(self):
        line = b'{"v": [9007199254740993, 12345678901234567890.12, 1e400, 1e-400, 0.30000000000000004, 1.50, -2.5e300]}'
        want = [9007199254740993, Decimal("12345678901234567890.12"), Decimal("1e400"), Decimal("1e-400"), 0.30000000000000004, 1.5, -2.5e300]
        rows, _ = self.query([], line)
        self.assertEqual(rows, [{"v": want}])
        self.assertEqual([type(v) for v in rows[0]["v"]], [type(v) for v in want])

    def test_the_kind_of_a_column_decides(self):
        rows, _ = self.query([], b'{"f": "-Infinity", "d": "NaN", "t": "NaN", "n": null}', {"f": "float", "d": "decimal", "n": "float"})
        self.assertEqual(repr(rows), "[{'f': -inf, 'd': Decimal('NaN'), 't': 'NaN', 'n': None}]")

    def test_numbers_that_json_has_not_are_sent_by_name(self):
        _, asked = self.query([float("nan"), "nan", float("-inf"), Missing(), None, 0.5, 2**60])
        self.assertEqual(asked["params"], ["nan", "nan", "-inf", None, None, 0.5, 2**60])
        self.assertEqual(asked["numbers"], [0, 2])
        _, asked = self.query([[1.0, float("nan")], [[float("inf")], (Missing(), 2)]])
        self.assertEqual((asked["params"], asked["numbers"]), ([[1.0, "nan"], [["inf"], [None, 2]]], []))

    def test_what_is_no_parameter_is_refused_and_not_sent_as_something_else(self):
        _, asked = self.query([{"a": [1, Missing()], "b": float("nan")}])
        self.assertEqual(asked["params"], [{"a": [1, None], "b": "nan"}])
        for params in ("x", {"a": 1}, [b"\x01"]):
            with self.subTest(params=params), self.assertRaisesRegex(sandbox.SQLError, "^invalid_argument: "):
                self.query(params)


if __name__ == "__main__":
    unittest.main()
