"""The streams and descriptors that code finds (descriptors.py)."""

import unittest

from test_support import SupervisorTest


class Streams(SupervisorTest):
    def test_streams_can_be_wrapped_replaced_and_set_anew(self):
        self.completed("import io, os, sys")
        for change in (
            "sys.stdout.reconfigure(encoding='utf-8')",
            "sys.stdout.reconfigure(errors='replace', line_buffering=False)",
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
            "sys.stdout = os.fdopen(1, 'w')",
            "sys.stdout = os.fdopen(sys.stdout.fileno(), 'w', encoding='utf-8')",
            "sys.stdout = open(1, 'w')",
        ):
            self.assertEqual(self.completed(change + "; print('one')").out, "one\n", change)
            self.assertEqual(self.completed("print('two')").out, "two\n", change)
        self.assertEqual(self.completed("sys.stdout.reconfigure(encoding='latin-1'); print('x')").out, "x\n")
        self.assertEqual(self.completed("print('€')").out, "€\n")

    def test_code_finds_only_its_own_descriptors_low(self):
        self.assertEqual(self.completed("import os; f = open('f', 'w'); f.fileno()").result, "3")


if __name__ == "__main__":
    unittest.main()
