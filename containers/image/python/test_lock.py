"""Whether requirements.lock is of pyproject.toml: `make lock` writes it anew. python3 -m unittest."""

import pathlib
import re
import tomllib
import unittest

from prepare import normal

HERE = pathlib.Path(__file__).parent
OURS = "code-sandbox-mcp-python-image (pyproject.toml)"


def entries():
    """The lock's packages: their hashes, and what needs them."""
    _, *blocks = re.split(r"\n(?=[\w])", (HERE / "requirements.lock").read_text())  # behind the comment
    for block in blocks:
        name, version = re.match(r"([\w.-]+)==(\S+)", block).groups()
        needed_by = set(re.findall(r"# +(?:via +)?(\S.*)", block)) - {"via"}
        yield name, version, re.findall(r"--hash=sha256:([0-9a-f]{64})\b", block), needed_by


class Lock(unittest.TestCase):
    def test_the_lock_has_the_list_and_what_it_needs(self):
        wanted = {normal(name) for name in tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["dependencies"]}
        locked = {name: needed_by for name, _, _, needed_by in entries()}
        self.assertEqual(wanted - set(locked), set(), "not locked")
        self.assertEqual({name for name, needed_by in locked.items() if OURS in needed_by}, wanted)
        self.assertEqual({by for needed_by in locked.values() for by in needed_by} - set(locked), {OURS})

    def test_each_package_has_hashes(self):
        self.assertEqual([name for name, _, hashes, _ in entries() if not hashes], [])


if __name__ == "__main__":
    unittest.main()
