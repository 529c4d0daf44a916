#!/usr/bin/env python3
"""Prints what each package of the Python image costs, as a table in Markdown: its size with what only it needs, and the processor time of its import.

It runs in the image, beside the list of packages:
  podman run --rm --network none -v ./containers/image/python/package_costs.py:/costs:ro IMAGE python3 /costs
"""

import re
import resource
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

LIST = "/usr/local/share/code-sandbox/build/pyproject.toml"
MODULES = {  # of packages whose module has another name
    "beautifulsoup4": "bs4", "fonttools": "fontTools", "google-genai": "google.genai", "lxml-html-clean": "lxml_html_clean", "odfpy": "odf.opendocument",
    "pillow": "PIL.Image", "python-calamine": "python_calamine", "python-docx": "docx", "python-pptx": "pptx", "pyyaml": "yaml", "scikit-learn": "sklearn.linear_model",
    "vl-convert-python": "vl_convert", "matplotlib": "matplotlib.pyplot", "plotly": "plotly.express", "scipy": "scipy.stats", "bokeh": "bokeh.plotting",
    "statsmodels": "statsmodels.api", "ipython": "IPython",
}


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def size_of(dist):
    paths = set()
    for file in dist.files or ():
        path = Path(dist.locate_file(file))
        paths.update((path, *(path.parent / "__pycache__").glob(path.stem + ".*.pyc")) if path.suffix == ".py" else (path,))
    return sum(path.lstat().st_size for path in paths if path.is_file())


def needs_of(dist):
    """What a package requires here, without extras."""
    for line in dist.requires or ():
        name = canonical(re.match(r"[\w.-]+", line)[0])
        if "extra ==" not in line and name in dists:
            yield name


def reach(names):
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name in dists and name not in found:
            found.add(name)
            left.extend(needs_of(dists[name]))
    return found


def seconds(module):
    """The processor time of an import in a new interpreter, less that of the interpreter alone: the least of three."""

    def once(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once("import " + module) for _ in range(3)) - min(once("") for _ in range(3))


dists = {canonical(dist.metadata["Name"]): dist for dist in metadata.distributions()}
sizes = {name: size_of(dist) for name, dist in dists.items()}
roots = [canonical(name) for name in tomllib.loads(Path(LIST).read_text())["project"]["dependencies"]]
rows = []
for root in roots:
    own = reach([root]) - reach(other for other in roots if other != root)
    rows.append((sum(sizes[name] for name in own | {root}), sizes[root], root, sorted(own - {root})))
print("| package | MB alone | MB with what only it needs | which is | import, s |\n|---|---|---|---|---|")
for total, alone, root, own in sorted(rows, reverse=True):
    try:
        cpu = "%.2f" % seconds(MODULES.get(root, root.replace("-", "_")))
    except subprocess.CalledProcessError:
        cpu = ""
    print("| %s | %.1f | %.1f | %s | %s |" % (root, alone / 1e6, total / 1e6, ", ".join(own), cpu))
print("\n%d packages, %.0f MB" % (len(dists), sum(sizes.values()) / 1e6))
