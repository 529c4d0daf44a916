"""Books and letters as text: .epub, .eml and .msg."""

import functools
import posixpath
import re
import urllib.parse

import markup
from document_office import Package, Refused, attribute, each


def page_text(page):
    """The text of a page of HTML."""
    return "\n".join(markup.lines_of(page, len(page))) + "\n"


def book(path):
    """The chapters of a book in their order."""
    package = Package(path)
    main = next((attribute(root, "full-path") for root in each(package.xml("META-INF/container.xml"), "rootfile")), "")
    if main not in package.names:
        raise Refused("broken", "it names no list of its chapters")
    listed, folder = package.xml(main), posixpath.dirname(main)
    files = {item.get("id"): posixpath.normpath(posixpath.join(folder, urllib.parse.unquote(item.get("href", "")))) for item in each(listed, "item")}
    locked = {urllib.parse.unquote(attribute(file, "URI")) for file in each(package.xml("META-INF/encryption.xml"), "CipherReference")}
    chapters = [files.get(item.get("idref")) for item in each(listed, "itemref")]
    if locked.intersection(chapters):
        raise Refused("encrypted")
    for number, name in enumerate((name for name in chapters if name in package.names), 1):
        yield f"--- chapter {number} ---\n" + page_text(package.archive.read(name).decode("utf-8-sig", "replace"))


HEADS = ("From", "To", "Cc", "Date", "Subject")


USUAL = "cp1252 cp1251 koi8_r cp1253 cp1254 cp1255 cp1256 shift_jis gb18030 big5 euc_kr".split()


def decoded(data, *charsets):
    """A text in the first of its charsets that fits; without one, in the one that it looks like."""
    for charset in (*charsets, "utf-8"):
        try:
            return data.decode(charset)
        except (UnicodeError, LookupError):
            pass
    import charset_normalizer

    return str(charset_normalizer.from_bytes(data, cp_isolation=USUAL).best() or data.decode("cp1252", "replace"))


def letter(path):
    """The head of an .eml file, its text, and the names of what is attached."""
    import email.policy

    with open(path, "rb") as file:
        data = file.read()
    parsed = functools.partial(email.message_from_bytes, policy=email.policy.default)
    body = parsed(data).get_body(("plain", "html"))
    charset = body and body.get_content_charset()
    # Letters in the head are as those in the text; without a charset, all looks like one.
    end = re.search(rb"\r?\n\r?\n|$", data).start() if charset else len(data)
    message = parsed(decoded(data[:end], charset or "utf-8").encode() + data[end:])
    body = message.get_body(("plain", "html"))
    yield from (f"{name}: {message[name]}\n" for name in HEADS if message[name])
    if body is not None:
        text = decoded(body.get_payload(decode=True), charset or "utf-8")
        yield "\n" + (page_text(text) if body.get_content_subtype() == "html" else text.replace("\r\n", "\n").rstrip("\n") + "\n")
    for part in message.iter_attachments():
        content = part.get_payload(decode=True) or b""
        yield f"[attached: {part.get_filename() or 'without a name'}, {part.get_content_type()}, {len(content)} bytes]\n"


# The properties of an Outlook message, and of what is attached to it.
SUBJECT, SENDER, ADDRESS, TO, CC, HEADERS, BODY, PAGE, NAME, SHORT_NAME, DATA = "0037 0C1A 0C1F 0E04 0E03 007D 1000 1013 3707 3704 3701".split()


def outlook(path):
    """The same of an Outlook .msg file, by the reader of xlrd."""
    from xlrd import compdoc

    with open(path, "rb") as file:
        streams = compdoc.CompDoc(file.read())
    settings, pages = streams.get_named_stream("__properties_version1.0") or b"", []
    for code_page in b"\x03\x00\xfd\x3f", b"\x03\x00\xde\x3f":  # of the message, and of its page
        if (at := settings.find(code_page) + 8) > 8:
            number = int.from_bytes(settings[at : at + 4], "little")
            pages.append(f"iso8859-{number - 28590}" if 28590 < number < 28606 else f"cp{number}")

    def value(number, folder=""):
        for kind, charsets in ("001F", ["utf-16-le"]), ("001E", pages), ("0102", pages[::-1]):
            if (data := streams.get_named_stream(f"{folder}__substg1.0_{number}{kind}")) is not None:
                return data if number == DATA else decoded(data, *charsets, "utf-8", "cp1252").rstrip("\0")
        return ""

    sent = next((line.partition(":")[2].strip() for line in value(HEADERS).splitlines() if line.startswith("Date:")), "")
    for name, text in zip(HEADS, (f"{value(SENDER)} <{value(ADDRESS)}>".removesuffix(" <>"), value(TO), value(CC), sent, value(SUBJECT))):
        yield f"{name}: {text}\n" if text else ""
    yield "\n" + (value(BODY).replace("\r\n", "\n") or page_text(value(PAGE))).rstrip("\n") + "\n"
    for entry in streams.dirlist:
        if entry.name.startswith("__attach_version1.0_"):
            folder = entry.name + "/"
            yield f"[attached: {value(NAME, folder) or value(SHORT_NAME, folder) or 'without a name'}, {len(value(DATA, folder))} bytes]\n"
