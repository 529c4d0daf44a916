"""What becomes of code that wants too much memory (interrupts.py, prctl.py), and which variables are large (sizes.py)."""

import shutil
import tempfile
import unittest

from test_support import Kernel, can_import

MEMORY = 256 << 20


class MemoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="memory-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.kernel = Kernel(folder, memory_bytes=MEMORY)
        self.addCleanup(self.kernel.close)

    def run_code(self, code):
        done = self.kernel.run(code)
        self.assertIsNone(done.get("error"), done)
        return done

    def interrupt(self, code, **fields):
        """Interrupts code when it has come to begin()."""
        self.kernel.start(code.replace("begin()", "print('begun', flush=True)"))
        self.kernel.out.readline()
        return self.kernel.interrupt(**fields)


class Jumps(MemoryTest):
    def test_one_allocation_that_is_too_large_is_an_error_and_names_the_largest_variables(self):
        self.run_code("small = 'x'\nbig = bytearray(50 << 20)\nwords = [b'%050d' % i for i in range(200_000)]")
        done = self.kernel.run("more = bytearray(%d)" % (2 * MEMORY))
        self.assertEqual(done["error"]["name"], "MemoryError")
        sizes = {entry["name"]: entry["size_bytes"] for entry in done["largest"]}
        self.assertEqual(list(sizes), ["big", "words"])
        self.assertAlmostEqual(sizes["big"] / (50 << 20), 1, 2)
        self.assertAlmostEqual(sizes["words"] / (200_000 * (83 + 8)), 1, 1)
        self.assertEqual(self.run_code("len(big)")["result"], str(50 << 20))

    @unittest.skipUnless(can_import("IPython"), "there are no results of cells")
    def test_results_of_cells_that_no_variable_holds_are_large_too(self):
        self.run_code("get_ipython()\nclass Big: pass\nbig, big.part = Big(), bytearray(20 << 20)")
        self.run_code("kept = Big(); kept.part = bytearray(20 << 20); kept")
        self.run_code("big")
        self.run_code("del big")
        done = self.kernel.run("more = bytearray(%d)" % (2 * MEMORY))
        self.assertEqual([(entry["name"], entry["size_bytes"] >> 20) for entry in done["largest"]], [("kept", 20), ("Out", 20)])

    def test_what_functions_have_taken_that_failed_is_free_again(self):
        code = "def take():\n    mine = bytearray(%d)\n    return bytearray(%d)\ntake()" % (MEMORY * 3 // 4, MEMORY)
        for _ in range(2):
            self.assertEqual(self.kernel.run(code)["error"]["name"], "MemoryError")
        self.run_code("len(bytearray(%d))" % (MEMORY * 3 // 4))

    def test_what_is_reserved_and_not_used_counts_for_one_run_only(self):
        reserve = "import mmap\nkept = [*globals().get('kept', ()), mmap.mmap(-1, %d, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)]" % (MEMORY // 2)
        for _ in range(4):
            self.run_code(reserve)
        self.run_code("big = bytearray(%d)" % (MEMORY // 2))
        self.assertEqual(self.kernel.run("more = bytearray(%d)" % (MEMORY // 2))["error"]["name"], "MemoryError")

    def test_what_duckdb_reserves_does_not_count(self):
        code = "import os, sys\nsys.path.insert(0, '.')\nopen('duckdb.py', 'w').write(%r)\nimport duckdb\n" % (
            "class DuckDBPyConnection: cursor = duplicate = None\nconnect = None"
        )
        code += (
            "import mmap\nkept = []\nwhile len(kept) < 4:\n    try: kept.append(mmap.mmap(-1, %d, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
            "    except OSError: pass" % (MEMORY // 2)
        )
        self.run_code(code)
        self.run_code(code)
        self.run_code("if os.fork() == 0: os._exit(len(os.listdir('/proc/self/task')))\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 1")

    def test_code_that_takes_more_and_more(self):
        done = self.kernel.run("x = []\nwhile True: x.append(bytearray(8 << 20))")
        self.assertEqual((done["error"]["name"], done["largest"][0]["name"]), ("MemoryError", "x"))
        self.assertLess(int(self.run_code("sum(map(len, x))")["result"]), MEMORY)

    def test_many_threads(self):
        self.run_code(
            "import threading\ngo = threading.Event()\nthreads = [threading.Thread(target=go.wait) for _ in range(60)]\n"
            "for thread in threads: thread.start()\nbig = bytearray(%d)\ngo.set()" % (MEMORY // 2)
        )


class Frees(MemoryTest):
    def test_memory_that_code_has_let_go_of_is_the_systems_again(self):
        resident = "int(open('/proc/self/statm').read().split()[1]) * 4 >> 10"
        before = int(self.run_code(resident)["result"])
        self.run_code("x = [bytes(1000) for _ in range(120_000)]; above = bytes(2000); del x")
        self.assertLess(int(self.run_code(resident)["result"]) - before, 60)


class Interrupts(MemoryTest):
    def test_code_that_is_stopped_for_memory_gets_a_memory_error(self):
        codes = {
            "begin()\nwhile True: pass": None,
            "import time; begin(); time.sleep(600)": None,
            "import asyncio\nbegin()\nawait asyncio.sleep(600)": None,
            "import asyncio\nbegin()\nasyncio.run(asyncio.sleep(600))": None,
            "import asyncio\nbegin()\ntry:\n    while True: pass\nexcept MemoryError: raise asyncio.CancelledError": None,
            "try:\n    begin()\n    while True: pass\nexcept MemoryError: pass\n'went on'": "'went on'",
        }
        for code, result in codes.items():
            with self.subTest(code):
                done = self.interrupt("big = bytearray(1 << 20)\n" + code, reason="memory")
                self.assertEqual(done["result"], result)
                if result is None:
                    self.assertEqual(done["error"]["name"], "MemoryError", done)
                    self.assertIn("nearly used up", done["error"]["message"])
                    self.assertEqual([entry["name"] for entry in done["largest"]], ["big"])
                self.assertEqual(self.run_code("len(big)")["result"], str(1 << 20))


class Freezes(MemoryTest):
    def test_what_takes_too_much_memory_to_be_written_costs_itself(self):
        self.run_code("many = [[] for _ in range(3_000_000)]\nbig = bytearray(10 << 20)")
        answer = self.kernel.ask("freeze", limit_bytes=1 << 30)
        self.assertEqual(answer["lost"], [{"name": "many", "why": "there is not enough memory to write it"}])
        self.run_code("len(bytearray(%d))" % (MEMORY // 16))
