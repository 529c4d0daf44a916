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
PICTURES = ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", PLOTLY)
LAID_OUT_CHARS = 100_000  # laying out a longer text takes too long
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
    """repr(), with containers laid out and cut as notebooks do it."""
    most = 1000
    if (type(value).__module__, type(value).__name__) == STYLER:
        return styled_text(value)
    if type(value) not in (list, tuple, set, frozenset, dict) or not value:
        return repr(value)
    import itertools
    import pprint

    note = ""
    if len(value) > most:
        note = "\n... %d of %d items shown" % (most, len(value))
        value = type(value)(itertools.islice(value.items() if isinstance(value, dict) else value, most))
    text = repr(value)
    if 79 < len(text) <= LAID_OUT_CHARS:
        text = pprint.pformat(value, width=79, compact=True, sort_dicts=False)
    return text + note
