"""Pages made whole: scripts and style sheets of installed libraries that an HTML file names by their address on the internet are put into it."""

import base64
import codecs
import functools
import json
import mimetypes
import os
import re
import stat

from imports import own_imports

MOST_PAGE_BYTES = 64 << 20  # of a page that is read
MOST_ADDED_BYTES = 64 << 20  # to the pages of a run
BEGIN = re.compile(rb"<(?:!--|(script|link)\b([^>]*)>)", re.I)
END = re.compile(rb"</script\s*>", re.I)
ATTRIBUTE = re.compile(rb"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
NUMBER = r"[\w.-]+"
PLOTLY_FILE = re.compile(r"(?:dist/)?plotly(?:\.min)?\.js")
READY = "/usr/local/share/code-sandbox/pages"  # of our images: Vega, and packages of npm that only browsers run
PACKAGES = (READY, "/opt/node/node_modules")
OTHER_NAMES = {"font-awesome": "@fortawesome/fontawesome-free"}  # of packages at cdnjs
RELATIVE = re.compile(r"""url\((["']?)(?!data:|https?:|/|#)([^"')?#]+)[^"')]*\1\)""")
OLD_FONTS = re.compile(r'''@font-face\{font-family:"?(?:Font Awesome 5|FontAwesome)[^}]*\}''')  # the same fonts under earlier names
GLYPHICONS = re.compile(r"(?:@font-face|\.glyphicon[^{}]*)\{[^}]*\}")


def plotly_script(version):
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    return get_plotlyjs() if same_major(version, get_plotlyjs_version()) else None


def bokeh_script(version, name):
    import bokeh

    if not same_major(version, bokeh.__version__):
        return None
    return read(os.path.join(os.path.dirname(bokeh.__file__), "server", "static", "js", name + ".min.js"))


def npm_file(version, name, path=None):
    """The text of a file of a package of npm, or of the one that browsers load; pictures and fonts are in style sheets."""
    if name.startswith("plotly.js") and PLOTLY_FILE.fullmatch(path or ""):
        return plotly_script(version)
    if name in ("vega", "vega-lite", "vega-embed") and not path:
        return read(os.path.join(READY, "vega.js")) if name == "vega-embed" else ""  # which has the other two in it
    for folder in PACKAGES:
        package = os.path.join(folder, name)
        try:
            facts = json.loads(read(os.path.join(package, "package.json")))
        except OSError:
            continue
        if same_major(version, facts["version"]):
            path = form_of(os.path.join(package, path or facts.get("jsdelivr") or facts["unpkg"]))
            text = read(path)
            if path.endswith("/leaflet.js"):
                text += leaflet_icons(os.path.dirname(path))
            if path.endswith(".css"):
                text = RELATIVE.sub(functools.partial(inlined, os.path.dirname(path)), OLD_FONTS.sub("", text))
            return text
    return None


def form_of(path):
    """The file of a package, or its short or long form in its place."""
    stem, kind = os.path.splitext(path.replace(".min.", "."))
    return next((form for form in (path, stem + ".min" + kind, stem + kind) if os.path.isfile(form)), path)


def d3_file(version):
    if version.partition(".")[0] == "3":
        return npm_file(version, "d3v3", "d3.min.js")
    return npm_file(version, "d3", "dist/d3.min.js")


def cdnjs_file(version, name, path):
    if name == "d3":
        return d3_file(version)
    return npm_file(version, OTHER_NAMES.get(name.lower(), name.lower()), path if name in OTHER_NAMES else "dist/" + path)


def glyphicons():
    return "".join(GLYPHICONS.findall(npm_file("3", "bootstrap3", "dist/css/bootstrap.min.css")))


def folium_file(path):
    import folium

    if path == "leaflet.awesome.rotate.min.css":
        return "".join(".fa-rotate-%d{transform:rotate(%ddeg)}" % (angle, angle) for angle in range(360))
    return read(os.path.join(os.path.dirname(folium.__file__), "templates", path))


def leaflet_icons(folder):
    """Names Leaflet's own icons, which it looks for beside its style sheet."""
    icons = {"iconUrl": "marker-icon", "iconRetinaUrl": "marker-icon-2x", "shadowUrl": "marker-shadow"}
    urls = {option: data_url(os.path.join(folder, "images", icon + ".png")) for option, icon in icons.items()}
    return "\nL.Icon.Default.imagePath='';L.Icon.Default.mergeOptions(%s);" % json.dumps(urls)


def inlined(folder, match):
    try:
        return "url(%s)" % data_url(os.path.join(folder, match[2]))
    except OSError:  # another form of a font, say
        return match[0]


def data_url(path):
    with open(path, "rb") as file:
        return "data:%s;base64,%s" % (mimetypes.guess_type(path)[0] or "", base64.b64encode(file.read()).decode())


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def same_major(wanted, there):
    return not wanted or wanted == "latest" or wanted.partition(".")[0] == there.partition(".")[0]


# Whole addresses, and functions that return the script of that version and name, or None for another installed version.
LIBRARIES = (
    (r"https?://cdn\.plot\.ly/plotly-(?P<version>latest|[\d.]+?)(?:\.min)?\.js", plotly_script),
    (r"plotly\.min\.js(?P<version>)", plotly_script),  # the file beside the page that include_plotlyjs="directory" makes
    (
        r"https?://cdn\.bokeh\.org/bokeh/(?:release|dev)/(?P<name>bokeh(?:-(?:api|gl|mathjax|tables|widgets))?)-(?P<version>\d[\w.]*?)(?:\.min)?\.js",
        bokeh_script,
    ),
    (r"https?://code\.jquery\.com/jquery-(?P<version>[\d.]+?)(?:\.min)?\.js", lambda version: npm_file(version, "jquery", "dist/jquery.min.js")),
    (r"https?://d3js\.org/d3\.v(?P<version>\d+)(?:\.min)?\.js", d3_file),
    (r"https?://(?:netdna|maxcdn)\.bootstrapcdn\.com/bootstrap/3[\d.]+/css/bootstrap-glyphicons\.css", glyphicons),
    (r"https?://cdn\.jsdelivr\.net/gh/python-visualization/folium(?:@main)?/folium/templates/(?P<path>[\w.]+)", folium_file),
    (r"https?://cdnjs\.cloudflare\.com/ajax/libs/(?P<name>[\w.-]+)/(?P<version>%s)/(?P<path>[\w./-]+)" % NUMBER, cdnjs_file),
    (
        r"https?://(?:cdn\.jsdelivr\.net/npm|unpkg\.com)/(?P<name>(?:@[\w.-]+/)?[\w.-]+)(?:@(?P<version>%s))?(?:/(?P<path>[\w./-]+))?" % NUMBER,
        npm_file,
    ),
)
KNOWN = [(re.compile(pattern), load) for pattern, load in LIBRARIES]


def escaped_characters(error):
    """As escaped_units, for a style sheet."""
    return "".join("\\%x " % ord(character) for character in error.object[error.start : error.end]), error.end


def escaped_units(error):
    """Escapes characters beyond ASCII as JavaScript's \\u, so that a script is the same in any encoding."""
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join("\\u%02x%02x" % tuple(units[at : at + 2]) for at in range(0, len(units), 2)), error.end


codecs.register_error("code_sandbox.javascript", escaped_units)
codecs.register_error("code_sandbox.css", escaped_characters)


def find_script(address, kind="javascript"):
    """The script or style sheet ("css") of an address as it may stand inside a page, or None where that is not installed."""
    for pattern, load in KNOWN:
        match = pattern.fullmatch(address)
        if match:
            try:
                with own_imports:
                    script = load(**match.groupdict())
            except Exception:  # the library is not here, or without its script
                return None
            if script is None:
                return None
            for text in ("</script", "</SCRIPT", "</style", "<!--"):  # which would end the element, or hide its end
                script = script.replace(text, "<\\" + text[1:])
            script = script.replace("\ufeff", " ")  # white space where files were joined
            return script.encode("ascii", "code_sandbox." + kind)
    return None


def attributes(tag):
    found = {}
    for name, *values in ATTRIBUTE.findall(tag):
        found.setdefault(name.decode().lower(), b"".join(values).decode("utf-8", "replace").strip())
    return found


class Pages:
    """The repair of one run's pages."""

    def __init__(self):
        self.left = MOST_ADDED_BYTES
        self.scripts = set()  # addresses of scripts already in the page

    def whole(self, data):
        """The page with installed scripts and style sheets put in."""
        parts, at = [], 0
        self.scripts.clear()
        match = BEGIN.search(data)
        while match:
            name, named = (match[1] or b"").lower(), attributes(match[2] or b"")
            begin, end, put_in = match.start(), match.end(), None
            if name == b"link":
                if "stylesheet" in named.get("rel", "").lower().split() and not named.get("media"):
                    put_in = b"<style>%s</style>", self._script(named.get("href", ""), "css")
            elif name:
                close = END.search(data, end)
                if close is None:
                    break
                if named.get("src") and not data[end : close.start()].strip():
                    kind = b' type="module"' if named.get("type", "").lower() == "module" else b""
                    put_in = b"<script" + kind + b">%s</script>", self._script(named["src"])
                end = close.end()
            else:
                end = data.find(b"-->", end)
                if end < 0:
                    break
            if put_in and put_in[1] is not None:
                parts += [data[at:begin], put_in[0] % put_in[1]]
                at = end
            match = BEGIN.search(data, end)
        return b"".join([*parts, data[at:]]) if parts else data

    def _script(self, address, kind="javascript"):
        """The script or style sheet, once for a page: the second time it is empty."""
        if address in self.scripts:
            return b""
        found = find_script(address, kind)
        if found is None or len(found) > self.left:
            return None
        self.left -= len(found)
        self.scripts.add(address)
        return found

    def whole_file(self, path):
        """Makes a file whole if that does no harm."""
        with open(path, "rb") as file:
            was = os.fstat(file.fileno())
            data = file.read(MOST_PAGE_BYTES + 1)
        left = self.left
        whole = self.whole(data[:MOST_PAGE_BYTES])
        if whole == data[:MOST_PAGE_BYTES]:
            return
        if len(data) > MOST_PAGE_BYTES or was.st_nlink > 1 or is_open(was):
            self.left = left
            return
        folder, name = os.path.split(path)
        beside = os.path.join(folder, ".%s.whole" % name[:200])
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(whole)
                os.fchmod(fd, stat.S_IMODE(was.st_mode))
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise


def is_open(file):
    """Whether a process holds a file open, which would go on writing to the replaced one."""
    for process in os.listdir("/proc"):
        if process.isdigit():
            folder = "/proc/%s/fd" % process
            try:
                fds = os.listdir(folder)
            except OSError:  # it is gone, or another user's
                continue
            for fd in fds:
                try:
                    if os.path.samestat(os.stat("%s/%s" % (folder, fd)), file):
                        return True
                except OSError:
                    continue
    return False
