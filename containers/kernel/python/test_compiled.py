"""The kernel's modules as Python compiles them: a kernel that does so itself takes 27 ms longer to start.

`python3 test_compiled.py` prints the archive that `make compiled` writes, for the Python that runs it.
"""

import _imp
import gzip
import os
import py_compile
import sys
import tarfile
import tempfile
import unittest
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

HERE = Path(__file__).parent
ARCHIVE = HERE.parent / "python.tar.gz"
INSTALLED = Path("/opt/code-sandbox-mcp/python")
OUR_IMAGE = "/usr/local/share/code-sandbox/versions.json"


def modules():
    """The modules' paths, without their tests."""
    paths = (path.relative_to(HERE) for path in [*HERE.glob("*.py"), *HERE.glob("kept/*.py")])
    return sorted(path for path in paths if not path.name.startswith("test_"))


def write(file):
    """Writes an archive whose parts Python takes only if the source is still the same."""
    packed = gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)
    with packed, tarfile.open(fileobj=packed, mode="w|") as archive, tempfile.TemporaryDirectory() as folder:
        for path in modules():
            compiled = py_compile.compile(
                str(HERE / path), os.path.join(folder, "pyc"), str(INSTALLED / path), doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            )
            part = tarfile.TarInfo(cache_from_source(path))
            part.size = os.path.getsize(compiled)
            with open(compiled, "rb") as content:
                archive.addfile(part, content)


class Compiled(unittest.TestCase):
    def test_the_archive_is_of_this_source(self):
        with tarfile.open(ARCHIVE) as archive:
            parts = {part.name: archive.extractfile(part).read() for part in archive}
        self.assertEqual(len(parts), len(modules()), "run make compiled")
        for path in modules():
            [part] = [part for name, part in parts.items() if name.startswith(str(path.parent / "__pycache__" / path.stem) + ".cpython-")]
            magic = part[:4]
            hashed = _imp.source_hash(int.from_bytes(magic, "little"), (HERE / path).read_bytes())
            self.assertEqual(part[4:16], (0b11).to_bytes(4, "little") + hashed, f"{path} has changed: run make compiled")
            if os.path.exists(OUR_IMAGE):
                self.assertEqual(magic, MAGIC_NUMBER, "the image has another Python: run make compiled")


if __name__ == "__main__":
    write(sys.stdout.buffer)
