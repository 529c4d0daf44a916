"""What hostile code sent as values of a frame, made safe to use."""

from utf8 import partial_tail


def clean(value, limit):
    """Makes a hostile value a text of at most `limit` bytes of valid UTF-8."""
    if not isinstance(value, str):
        return ""
    if len(value) <= limit and value.isascii():
        return value
    data = value[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    keep = max(0, limit - 3)
    return data[: keep - partial_tail(data[:keep])].decode("utf-8", "replace") + "…"


def clean_int(value, default, low, high):
    if isinstance(value, bool) or not isinstance(value, int):
        return default
    return max(low, min(high, value))


def relative_path(value):
    """A path that a kernel named, when it is one that may be passed on, else an empty text."""
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or value[0] == "/":
        return ""
    if any(part in ("", ".", "..") for part in value.split("/")) or "\0" in value or not is_utf8(value):
        return ""
    return value


def is_utf8(name):
    """Whether a file name can be told in UTF-8; others come with lone surrogates from the os module."""
    if name.isascii():
        return True
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
