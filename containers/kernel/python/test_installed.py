"""Packages that come into the user's site while the kernel runs, as pip puts them there. This is about installed.py."""

import tempfile

from test_support import Client, SupervisorTest

PUT = """
import os, site, time
def put(name, version, body=""):
    folder = site.getusersitepackages()
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        if old.startswith(name + "-"):
            os.remove(os.path.join(folder, old, "RECORD"))
            os.rmdir(os.path.join(folder, old))
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(os.path.join(folder, name, "__init__.py"), "w") as file:
        file.write((body or "__version__ = %r\\n" % version) + "#" * len(os.listdir(folder)))
    info = os.path.join(folder, "%s-%s.dist-info" % (name, version))
    os.mkdir(info)
    with open(os.path.join(info, "RECORD"), "w") as file:
        file.write("%s/__init__.py,sha256=x,1\\n%s/RECORD,,\\n" % (name, os.path.basename(info)))
    now = time.time_ns()
    while os.stat(info).st_mtime_ns <= now:  # the clock that stamps files goes in steps
        os.utime(info)
"""


class Installs(SupervisorTest):
    def setUp(self):
        base = tempfile.TemporaryDirectory()
        self.addCleanup(base.cleanup)
        self.client = Client(env={"PYTHONUSERBASE": base.name})
        self.addCleanup(self.client.close)
        self.completed(PUT)

    def test_a_package_is_imported_in_the_run_that_installs_it(self):
        code = "try: import late\nexcept ImportError: put('late', '1.0')\nimport late; late.__version__"
        self.assertEqual(self.completed(code).result, "'1.0'")
        self.assertEqual(self.completed("import late; late.__version__", fresh=True).result, "'1.0'")

    def test_one_that_was_imported_before_is_told_of(self):
        first = self.completed("put('late', '1.0'); import late")
        self.assertEqual(first.err, "")
        second = self.completed("put('late', '2.0')")
        self.assertIn("note: late 2.0 is installed, and late stays imported as 1.0", second.err)
        self.assertEqual(self.completed("import late; late.__version__").err, "")
        self.assertEqual(self.completed("import late; late.__version__", fresh=True).result, "'2.0'")

    def test_one_without_a_version_is_told_of_too(self):
        self.completed("put('late', '1.0', 'x = 1\\n'); import late")
        answer = self.completed("put('late', '2.0', 'x = 2\\n'); late.x")
        self.assertEqual(answer.result, "1")
        self.assertIn("note: late 2.0 is installed, and late stays imported as 1.0", answer.err)
        answer = self.completed("put('late', '3.0', 'x = 3\\n'); import importlib; importlib.reload(late).x")
        self.assertEqual((answer.result, answer.err), ("3", ""))

    def test_one_that_another_process_installs_is_told_of_by_the_next_run(self):
        self.completed("put('late', '1.0'); import late")
        self.completed(PUT + "put('late', '1.1')", fresh=True)
        self.assertIn("late 1.1 is installed", self.completed("1").err)

    def test_it_comes_before_what_the_image_has(self):
        self.completed("put('tabnanny', '7')")  # of the standard library, which stays first
        self.assertNotEqual(self.completed("import tabnanny; getattr(tabnanny, '__version__', '')").result, "'7'")
        self.completed("put('pip', '999')")
        self.assertEqual(self.completed("import pip; pip.__version__").result, "'999'")

    def test_records_that_make_no_sense_hinder_nothing(self):
        code = "put('late', '1.0'); open(os.path.join(site.getusersitepackages(), 'late-1.0.dist-info', 'RECORD'), 'wb').write(b'\\xff')"
        self.assertEqual(self.completed(code).err, "")
        self.completed("os.makedirs(os.path.join(site.getusersitepackages(), 'x.dist-info'))")
        self.assertEqual(self.completed("1").result, "1")


class Preloaded(SupervisorTest):
    def test_what_was_imported_ahead_is_imported_anew(self):
        with tempfile.TemporaryDirectory() as base:
            early = Client(env={"PYTHONUSERBASE": base})
            early.run(PUT + "put('ahead', '1.0')")
            early.close()
            self.client = Client(env={"PYTHONUSERBASE": base}, preload=["ahead"], warm=True)
            self.addCleanup(self.client.close)
            self.client.wait_for_modules("ahead")
            self.completed(PUT + "put('ahead', '2.0')", fresh=True)
            self.assertEqual(self.completed("import ahead; ahead.__version__", fresh=True).result, "'2.0'")
            self.client.wait_for_modules("ahead")
            self.assertEqual(self.completed("import ahead; ahead.__version__", fresh=True).result, "'2.0'")
