"""Tests of prepare.py that need neither the image nor matplotlib: python3 -m unittest."""

import json
import pathlib
import pickle
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import prepare

FONT_MANAGER = """def _load_fontmanager(*, try_read_cache=True):
    if try_read_cache:
        try:
            fm = json_load(fm_path)
        except Exception:
            pass
        else:
            return fm
    return "made anew"


fontManager = _load_fontmanager()
"""


class UseReadyFontList(unittest.TestCase):
    def load(self, own, ready):
        """Runs the changed source with json_load and the two paths replaced."""
        source = prepare.use_ready_font_list(FONT_MANAGER, str(ready))
        scope = {"fm_path": own, "json_load": lambda path: pathlib.Path(path).read_text()}
        exec(source, scope)
        return scope["fontManager"]

    def test_the_ready_list_serves_where_there_is_no_own_one(self):
        with tempfile.TemporaryDirectory() as folder:
            own, ready = pathlib.Path(folder, "own"), pathlib.Path(folder, "it's ready")
            self.assertEqual(self.load(own, ready), "made anew")
            ready.write_text("ready")
            self.assertEqual(self.load(own, ready), "ready")
            own.write_text("own")
            self.assertEqual(self.load(own, ready), "own")

    def test_another_matplotlib_is_refused(self):
        for source in "", FONT_MANAGER + FONT_MANAGER:
            with self.assertRaises(ValueError):
                prepare.use_ready_font_list(source, "/list")


class Packed(unittest.TestCase):
    def test_it_is_the_same_and_shorter(self):
        value = {"%d" % n: ["a long text, n times", ("%s" % "a long text", {n: None}), pathlib.PurePath("x")] for n in range(9)}
        data = pickle.dumps(value, 2)
        packed = prepare.packed(data)
        self.assertEqual(pickle.loads(packed), value)
        self.assertLess(len(packed), len(data))


class Versions(unittest.TestCase):
    def test_each_package_is_listed_once_in_order(self):
        found = prepare.versions()
        self.assertEqual(found["language"], "Python")
        self.assertEqual(found["version"].split(".")[0], str(sys.version_info.major))
        names = [package["name"] for package in found["packages"]]
        self.assertEqual(names, sorted(set(names), key=str.lower))
        self.assertTrue(all(package["version"] for package in found["packages"]))
        json.dumps(found)

    def test_what_is_wanted_and_not_there_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            project = pathlib.Path(folder, "pyproject.toml")
            project.write_text('[project]\ndependencies = ["Not_There-1", "great_tables", "json"]\n')
            found = prepare.missing([{"name": "Great-Tables", "version": "1"}], project)
        self.assertEqual(found, ["Not_There-1"])


if __name__ == "__main__":
    unittest.main()
