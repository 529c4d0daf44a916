"""Values as MIME bundles by Jupyter's rules, and as text for a terminal."""

import json
import sys

from errors import format_error, message_of, user_frames
from imports import import_seldom
from pictures import figure_png, is_figure

# Text of a display goes to stdout, where a terminal would show it. Other displays use the first
# of these types that an object offers.
SHOWN_MIMES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "text/html": "html",
}
REPR_METHODS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
}
PLOTLY = "application/vnd.plotly.v1+json"
PAGE = "application/vnd.code-sandbox.page"  # HTML whose picture is beside it
DATA = "application/vnd.code-sandbox.data+json"  # a dict for a server's API, beside what is shown
PICTURES = ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", PLOTLY, PAGE, DATA)
LAID_OUT_CHARS = 1_000_000
MAX_WIDTH = 79
MOST_ITEMS = 1000  # of a container that are shown
SHORT_HTML = 1000  # characters: longer HTML is read as text
LONG_REPR = 4000  # characters of a repr that only lists all of an object's parts


def as_bytes(mime, value):
    """The content of a MIME bundle's entry: images come as base64 or as bytes."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if mime.startswith("image/") and mime != "image/svg+xml":
        import binascii

        if not isinstance(value, str):
            raise TypeError("%s has to be bytes or text in base64, not %s" % (mime, type(value).__name__))
        return binascii.a2b_base64(value)
    return str(value).encode("utf-8", "replace")


def text_of(bundle):
    """The text of a MIME bundle for a terminal."""
    plain = bundle.get("text/plain") or ""
    if PLOTLY in bundle:
        return plain.partition("(")[0]  # the whole would be all of its data
    if not is_bare(plain):
        return plain
    for mime in ("text/markdown", "text/latex"):
        if isinstance(bundle.get(mime), str):
            return bundle[mime]
    if "application/json" in bundle:
        try:
            return json.dumps(bundle["application/json"], indent=2, ensure_ascii=False, default=repr)
        except (TypeError, ValueError, RecursionError):  # it contains itself, or a key foreign to JSON
            pass
    page = bundle.get("text/html")
    if not isinstance(page, str) or len(page) <= SHORT_HTML:
        return plain
    return import_seldom("markup").read(page) or (plain if plain[:1] == "<" else plain.partition("(")[0] + "(...)")


def is_bare(text):
    """Whether a repr says little but the class, such as <IPython.core.display.HTML object> or Chart(...), or lists every part of a large object."""
    return not text or (text[0] == "<" and text[-1] == ">") or text.endswith("(...)") or (len(text) > LONG_REPR and text.partition("(")[0].isidentifier())


def mime_bundle(value):
    """Formats a value by Jupyter's rules, for Pythons without IPython, and asks for its text only if its own bundle lacks one.

    Other than a notebook it asks for HTML and the like only without a picture and
    a text of its own: a table is better read as text.
    """
    if isinstance(value, type):
        return {"text/plain": plain_text(value)}
    unshown = Unshown(value)
    if is_figure(value):
        return unshown.checked({"text/plain": unshown.text(plain_text, value), "image/png": unshown.attempt(figure_png, value)})
    found = unshown.attempt(call_repr, "_repr_mimebundle_", value)
    found = unshown.checked(found) if isinstance(found, dict) else {}
    bundle = {"text/plain": found.get("text/plain") or unshown.text(plain_text, value) or ""}
    bundle.update((mime, content) for mime, content in found.items() if wanted(mime, bundle))
    for mime, name in REPR_METHODS.items():
        if mime not in found and wanted(mime, bundle):
            bundle.update(unshown.checked({mime: unshown.attempt(call_repr, name, value)}))
    return bundle


def wanted(mime, bundle):
    return mime in PICTURES or is_bare(bundle["text/plain"])


def call_repr(name, value):
    """The result of a class's display method, without metadata."""
    method = getattr(type(value), name, None)
    content = method(value) if method is not None else None
    return content[0] if isinstance(content, tuple) and content else content


class Unshown:
    """Names a broken display method of a value, and why: the value is shown by the others, and the run goes on."""

    def __init__(self, value):
        self.kind = type(value).__name__
        self.said = set()
        self.bundle = None  # its own, which it is asked for once
        self.textless = False

    def attempt(self, method, *args):
        try:
            return method(*args)
        except NotImplementedError:
            return None
        except Exception as e:
            self.tell(e)
            return None

    def text(self, method, value):
        """A value's text, or nothing and the traceback where its repr raises, as IPython does it."""
        try:
            return method(value)
        except MemoryError:  # the run is stopped
            raise
        except Exception as e:
            print("".join(format_error(e)), end="", file=sys.stderr)
            self.textless = True
            return None

    def checked(self, bundle):
        """A MIME bundle without values foreign to their type."""
        kept = {}
        for mime, content in bundle.items():
            if content is None:
                continue
            if mime == "text/plain" and not isinstance(content, str):
                content = self.attempt(str, content) or ""
            if mime not in SHOWN_MIMES or self.attempt(as_bytes, mime, content):
                kept[mime] = content
        return kept

    def tell(self, error):
        frames = [(frame.f_code, line) for frame, line in user_frames(error)]
        name = "%s() raised " % frames[0][0].co_name if frames else ""
        places = [(code.co_filename, line) for code, line in frames if code.co_filename.startswith("<cell ")]
        place = " (%s, line %d)" % places[-1] if places else ""
        why = "%s%s: %s%s" % (name, type(error).__name__, message_of(error)[:500], place)
        if why not in self.said:
            self.said.add(why)
            print("note: this %s is shown without what failed: %s" % (self.kind, why), file=sys.stderr)


STYLER = ("pandas.io.formats.style", "Styler")


def styled_text(styler):
    """A styled table as text; its own repr says nothing, and its HTML little to a model."""
    return styler.to_string(delimiter="  ").rstrip("\n")


def plain_text(value):
    """repr(), with containers laid out and cut as IPython does it."""
    if (type(value).__module__, type(value).__name__) == STYLER:
        return styled_text(value)
    stream = BoundedText(LAID_OUT_CHARS)
    try:
        lay_out(value, stream.write, MAX_WIDTH)
    except Enough:
        pass
    return "".join(stream.parts)


class Enough(BaseException):
    """Ends the making of a text beyond the wanted length."""


class BoundedText:
    """Where a printer writes to, until there is enough."""

    def __init__(self, most):
        self.parts = []
        self.left = most

    def write(self, text):
        self.parts.append(text[: self.left + 1])
        self.left -= len(text)
        if self.left < 0:
            raise Enough


BRACKETS = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}


def one_line(value, most, outer):
    """A value's text if it has no more characters and no line end; else None."""
    stream = BoundedText(most)
    try:
        lay_out(value, stream.write, None, outer=outer)
    except Enough:
        return None
    text = "".join(stream.parts)
    return None if "\n" in text else text


def lay_out(value, write, width, indent=0, column=0, after=0, outer=()):
    """Writes a value on one line if there is room for it from a column on and for what comes `after`; else an item a line.
    Without a width it is one line."""
    start, end = BRACKETS.get(type(value), ("", ""))
    if not start or not value:
        return write(repr(value).replace("\n", "\n" + " " * indent))
    if id(value) in outer:
        return write(start + "..." + end)
    line = one_line(value, width - column - after, outer) if width else None
    if line is not None:
        return write(line)
    outer = (*outer, id(value))
    indent += len(start)
    column += len(start)
    end = "," + end if type(value) is tuple and len(value) == 1 else end
    write(start)
    items = in_order(value)
    for number, item in enumerate(items):
        if number:
            write(",\n" + " " * indent if width else ", ")
            column = indent
        if number == MOST_ITEMS:
            write("...")
            break
        if type(value) is dict:
            key = BoundedText(LAID_OUT_CHARS)
            lay_out(item, key.write, width, indent, column, 2, outer)
            write("".join(key.parts) + ": ")
            column += sum(map(len, key.parts)) + 2
            item = value[item]
        lay_out(item, write, width, indent, column, 1 if number + 1 < len(items) else after + len(end), outer)
    write(end)


def in_order(value):
    """The items of a container: of a set that is shown whole in their order, if they have one."""
    if type(value) not in (set, frozenset) or len(value) >= MOST_ITEMS:
        return value
    try:
        return sorted(value)
    except Exception:  # of the items' own methods
        return value
