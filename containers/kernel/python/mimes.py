"""What a value looks like: MIME bundles by Jupyter's rules, and text for a terminal."""

import json

from pictures import figure_png, is_figure

# What reads as text in a display goes to stdout, where a terminal would show it. The rest is
# shown as the first of these that an object offers.
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
LAID_OUT_CHARS = 100_000  # laying out what is longer takes too long


def as_bytes(mime, value):
    """The content of a MIME bundle's entry: images come as base64 or as bytes."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        value = str(value)
    if mime.startswith("image/") and mime != "image/svg+xml":
        import binascii

        return binascii.a2b_base64(value)
    return value.encode("utf-8", "replace")


def text_of(bundle):
    """What a terminal would show of a MIME bundle."""
    plain = bundle.get("text/plain") or ""
    if PLOTLY in bundle:
        return plain.partition("(")[0]  # the whole would be all of its data
    for mime in ("text/markdown", "text/latex"):
        if is_bare(plain) and isinstance(bundle.get(mime), str):
            return bundle[mime]
    if is_bare(plain) and "application/json" in bundle:
        return json.dumps(bundle["application/json"], indent=2, ensure_ascii=False, default=repr)
    return plain


def is_bare(text):
    """Whether a repr says nothing but what class it is of, such as <IPython.core.display.HTML object>."""
    return not text or (text[0] == "<" and text[-1] == ">")


def mime_bundle(value):
    """Formats a value by Jupyter's rules, for Pythons without IPython.

    Other than a notebook it asks for HTML and the like only where there is neither a picture
    nor a text of its own: a table is better read as text.
    """
    bundle = {"text/plain": plain_text(value)}
    kind = type(value)
    if is_figure(value):
        bundle["image/png"] = figure_png(value)
        return bundle
    if isinstance(value, type):
        return bundle
    found = call_repr(kind, "_repr_mimebundle_", value) or {}
    bundle.update((mime, content) for mime, content in found.items() if wanted(mime, bundle))
    for mime, name in REPR_METHODS.items():
        if mime not in found and wanted(mime, bundle):
            content = call_repr(kind, name, value)
            if content is not None:
                bundle[mime] = content
    return bundle


def wanted(mime, bundle):
    return mime in PICTURES or is_bare(bundle["text/plain"])


def call_repr(kind, name, value):
    """What a display method of a class returns, without the metadata that may come with it."""
    method = getattr(kind, name, None)
    content = method(value) if method is not None else None
    return content[0] if isinstance(content, tuple) else content


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
