"""Build step of the Python image: what is made once here, so that no kernel has to make it.

Writes into the folder given as the only argument:

- matplotlib/matplotlibrc and matplotlib/fontlist.json. Matplotlib keeps its list of
  fonts in a folder that it can write to, and takes seconds to make it; in a container
  with a read-only root that folder is empty each time. So the installed matplotlib is
  changed to read the ready-made list where it has none of its own. That costs nothing
  unless matplotlib is imported, which a start-up hook (.pth, sitecustomize) would.
- pages/vega.js: Vega with what charts of Altair need of it. Vl-convert joins it of its parts each time, which takes seconds.
- pages/plotly.txt: the version of plotly.js, and the script packed, as the pages of figures have it.
- versions.json: the language, its version, and every package with its version; of an image with Debian's packages also
  those of pyproject.toml that are not there, and why: the text of the file why-debian in the same folder, if there is one.

Babel's data on languages is written anew, half as long.
"""

import base64
import concurrent.futures
import gzip
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import pickle
import pickletools
import platform
import py_compile
import re
import subprocess
import sys
import tempfile
import tomllib

# Tried in this order for each character: Latin, Greek, Cyrillic, Arabic and Hebrew;
# Chinese, Japanese and Korean; Devanagari, Bengali, Tamil, Kannada; Thai; Ethiopic; symbols and emoji.
FONT_FAMILIES = [
    "DejaVu Sans", "WenQuanYi Micro Hei", "Lohit Devanagari", "Lohit Bengali", "Lohit Tamil", "Lohit Kannada", "Garuda", "Abyssinica SIL", "Symbola",
]

READS_OWN_LIST = "            fm = json_load(fm_path)\n"
READS_READY_LIST = "            fm = json_load(fm_path if fm_path.exists() else {path!r})\n"


def use_ready_font_list(source: str, path: str) -> str:
    """Returns matplotlib's font_manager.py, changed to read path where it has no list of its own.

    Raises ValueError when the source is not the one that this change was made for.
    """
    if source.count(READS_OWN_LIST) != 1:
        raise ValueError("matplotlib.font_manager reads its font list in another way: adapt prepare.py")
    return source.replace(READS_OWN_LIST, READS_READY_LIST.format(path=path))


def prepare_matplotlib(target: pathlib.Path) -> None:
    """Makes the settings and the font list, and has the installed matplotlib read the list."""
    target.mkdir(parents=True)
    (target / "matplotlibrc").write_text("font.family: " + ", ".join(FONT_FAMILIES) + "\n")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["MPLCONFIGDIR"] = cache
        import matplotlib.font_manager

        (made,) = pathlib.Path(cache).glob("fontlist-*.json")
        (target / "fontlist.json").write_bytes(made.read_bytes())
        font_manager = pathlib.Path(matplotlib.font_manager.__file__)
        font_manager.write_text(use_ready_font_list(font_manager.read_text(), str(target / "fontlist.json")))
        py_compile.compile(str(font_manager), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        # What usual code imports is compiled now, as nothing can be on a read-only root; the rest is by what comes behind this.
        subprocess.run([sys.executable, "-c", "import IPython, numpy, pandas, matplotlib.pyplot"], check=True)


def prepare_vega(target: pathlib.Path) -> None:
    """Writes the script if vl-convert is here."""
    if importlib.util.find_spec("vl_convert"):
        import vl_convert

        target.mkdir(parents=True, exist_ok=True)
        (target / "vega.js").write_text(vl_convert.javascript_bundle(), encoding="utf-8")


def prepare_plotly(target: pathlib.Path) -> None:
    """Writes plotly's script if it is here."""
    if importlib.util.find_spec("plotly"):
        from plotly.offline import get_plotlyjs, get_plotlyjs_version

        packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
        target.mkdir(parents=True, exist_ok=True)
        (target / "plotly.txt").write_text("%s\n%s" % (get_plotlyjs_version(), packed))


def pack_languages(part: int, parts: int) -> None:
    """Packs a part of the data files of the installed Babel."""
    if importlib.util.find_spec("babel"):
        import babel

        for file in sorted((pathlib.Path(babel.__file__).parent / "locale-data").glob("*.dat"))[part::parts]:
            file.write_bytes(packed(file.read_bytes()))


def packed(data: bytes) -> bytes:
    """The same pickle in fewer bytes: each text is in it once."""
    texts = {}

    def once(value):
        if type(value) is str:
            return texts.setdefault(value, value)
        if type(value) is dict:
            return {once(key): once(item) for key, item in value.items()}
        return type(value)(map(once, value)) if type(value) in (list, tuple) else value

    return pickletools.optimize(pickle.dumps(once(pickle.loads(data)), pickle.HIGHEST_PROTOCOL))


def versions() -> dict:
    """The language and its packages, by name, each once."""
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    packages = [{"name": name, "version": found[name]} for name in sorted(found, key=str.lower)]
    return {"language": "Python", "version": platform.python_version(), "packages": packages}


def missing(packages: list, project: pathlib.Path) -> list:
    """The names of the packages that a pyproject.toml wants and that are not among these."""
    there = {normal(package["name"]) for package in packages}
    wanted = tomllib.loads(project.read_text())["project"]["dependencies"]
    return [name for name in wanted if normal(name) not in there and not importlib.util.find_spec(name.replace("-", "_"))]


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def main(target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor() as pool:
        jobs = [pool.submit(prepare_matplotlib, target / "matplotlib"), pool.submit(prepare_vega, target / "pages"), pool.submit(prepare_plotly, target / "pages")]
        jobs += [pool.submit(pack_languages, part, 4) for part in range(4)]
        for job in jobs:
            job.result()
    label, why = versions(), target / "why-debian"
    if why.exists():
        label["missing"] = missing(label["packages"], pathlib.Path(__file__).with_name("pyproject.toml"))
        label["why"] = why.read_text().strip() or "the installer gives no reason"
    (target / "versions.json").write_text(json.dumps(label, separators=(",", ":")))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
