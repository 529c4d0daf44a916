"""Code that spoils its own kernel, and no more than that."""

import unittest

from test_support import SupervisorTest


class Spoilt(SupervisorTest):
    def still_works(self):
        self.assertEqual(self.completed("print('works'); 1 + 1").result, "2")

    def test_code_can_use_its_own_proc_entry(self):
        self.assertEqual(self.completed("len(open('/proc/self/environ', 'rb').read()) >= 0").result, "True")

    def test_the_killer_of_memory_hogs_prefers_code(self):
        self.assertEqual(self.completed("int(open('/proc/self/oom_score_adj').read())").result, "1000")

    def test_code_that_uses_up_its_descriptors_keeps_its_kernel(self):
        code = (
            "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\nkept = []\n"
            "try:\n    while True: kept.append(os.open('/dev/null', 0))\nexcept OSError: print('full')"
        )
        self.assertEqual(self.completed(code).out, "full\n")
        self.assertEqual(self.completed("for fd in kept: os.close(fd)\nlen(kept) > 200").result, "True")
        self.still_works()

    def test_replaced_builtins_do_not_cost_the_kernel(self):
        for code in (
            "import builtins; builtins.print = None; builtins.len = None",
            "import builtins; builtins.isinstance = None; builtins.open = None",
            "import sys; sys.modules.clear()",
            "import json, os, signal; json.dumps = os.write = signal.signal = None",
            "import sys; sys.setrecursionlimit(50)",
            "globals().clear()",
            "import sys; sys.settrace(lambda *a: 1/0)",
            "import gc; gc.disable(); gc.set_threshold(1, 1, 1)",
        ):
            with self.subTest(code):
                self.run_code(code)  # it may cost the code its own kernel, and no more than that
                self.still_works()


if __name__ == "__main__":
    unittest.main()
