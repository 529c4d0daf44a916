"""Books and letters as text: .epub, .eml, .mbox, .msg and .rtf."""

import collections
import datetime
import email.header
import email.policy
import itertools
import posixpath
import re
import urllib.parse

import markup
from document_office import Package, Refused, attribute, each
from document_rich import code_page, rich, unpacked


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


HEADS = ("From", "To", "Cc", "Bcc", "Date", "Subject")


USUAL = "cp1252 cp1251 koi8_r cp1253 cp1254 cp1255 cp1256 shift_jis gb18030 big5 euc_kr".split()


def decoded(data, *charsets):
    """A text in the first of its charsets that fits; without one, in the one that it looks like."""
    for charset in (*charsets, "utf-8"):
        try:
            return data.decode(charset)
        except (UnicodeError, LookupError):
            pass
    return data.decode(likely(data), "replace")


def likely(data):
    """The charset that a text looks like: UTF-8 also where a few letters are damaged."""
    text = data.decode("utf-8", "replace")
    if text.count("\ufffd") < 0.05 * len(re.sub(r"[\0-\x7f]+", "", text)):
        return "utf-8"
    import charset_normalizer

    found = charset_normalizer.from_bytes(data, cp_isolation=USUAL).best()
    return found.encoding if found else "cp1252"


def letters(reader, source, title=""):
    """A letter, and behind it those that it holds, each below a line with its name."""
    waiting = [(title, reader, source)]
    for title, reader, source in waiting:
        yield f"--- letter {title} ---\n" if title else ""
        try:
            for piece in reader(source):
                if isinstance(piece, str):
                    yield piece
                    continue
                name, kind, data = piece
                size = f", {len(data)} bytes" if isinstance(data, bytes) else ""
                yield f"[attached: {name or 'without a name'}, {kind}{size}]\n"
                if opener := opener_of(name.lower(), kind, data):
                    waiting.append((" / ".join(filter(None, (title, name or kind))), opener, data))
        except Exception as error:
            if len(waiting) == 1:
                raise Refused("too_large") if isinstance(error, RecursionError) else error
            yield f"[this letter cannot be read on: {type(error).__name__}: {str(error)[:200]}]\n"


def opener_of(name, kind, data):
    """The reader of an attached letter; the second part of a divided one is none."""
    if isinstance(data, tuple) or kind == OUTLOOK or name.endswith(".msg"):
        return message
    is_letter = kind.startswith(("message/", "multipart/")) or name.endswith(".eml")
    return mail if is_letter and (isinstance(data, bytes) or data.keys()) else None


def opened(reader):
    def read(path):
        with open(path, "rb") as file:
            yield from letters(reader, file.read())

    return read


BEGIN = re.compile(rb"From \S.*\d:\d\d.*\d\d\d\d")  # the line before a letter in a mailbox


def mailbox(path):
    """The letters of an .mbox file."""
    with open(path, "rb") as file:
        lines, before, number = [], b"", 0
        for line in itertools.chain(file, (b"",)):
            if not line or not before.strip() and BEGIN.match(line):
                if any(map(bytes.strip, lines)):
                    number += 1
                    yield from letters(mail, re.sub(rb"(?m)^>(>*From )", rb"\1", b"".join(lines)), str(number))
                lines = []
            else:
                lines.append(line)
            before = line


class Decoded(email.policy.Compat32):
    """Heads as people read them. The default policy refuses some that are not as they should be."""

    charsets = ()

    def header_fetch_parse(self, name, value):
        data = re.sub(r"\r?\n[ \t]+", " ", value).encode("ascii", "surrogateescape")
        text = decoded(data, *("utf-8", *self.charsets)[b"\x1b" in data :])
        try:
            pieces = email.header.decode_header(text)
        except email.errors.HeaderParseError:
            return text
        return "".join(
            piece if isinstance(piece, str) else decoded(piece, charset) if charset else piece.decode("raw-unicode-escape") for piece, charset in pieces
        )


def mail(whole):
    """The head of a letter as it is sent, its texts, and what is attached, in their order."""
    odd = []
    if isinstance(whole, bytes):
        odd = [] if whole.isascii() else [line for line in whole.splitlines() if not line.isascii()]
        whole = email.message_from_bytes(whole.lstrip(b"\xef\xbb\xbf\r\n"), policy=Decoded())
    charsets = [charset for part in whole.walk() if (charset := part.get_content_charset())][:1]
    if odd and not charsets:
        charsets = [likely(b"\n".join(odd)[: 1 << 16])]
    for part in whole.walk():
        part.policy = Decoded(charsets=charsets)
    yield from (f"{name}: {', '.join(whole.get_all(name))}\n" for name in HEADS if name in whole)
    yield "\n"
    for part in leaves(whole):
        name, content, kind = part.get_filename(""), part.get_payload(), part.get_content_type()
        if isinstance(content, list) and kind.endswith(("-status", "-notification")):
            yield from (f"{key}: {value}\n" for block in content for key, value in block.items())
        elif isinstance(content, list):
            if part.get("Content-Transfer-Encoding", "").lower() in ("base64", "quoted-printable"):
                part.set_payload(content[0].as_bytes().decode("ascii", "surrogateescape"))
                content = [part.get_payload(decode=True)]
            yield name or not isinstance(content[0], bytes) and content[0]["Subject"] or "", kind, content[0]
        elif is_text(part) or part is whole and part.get_content_maintype() == "text":
            yield (f"[attached: {name}]\n" if name else "") + written(part, *charsets)
        else:
            yield name, kind, part.get_payload(decode=True) or b""


def leaves(part):
    """The parts of a letter: of several forms of a text the best that is not empty, and all that is attached."""
    if not part.is_multipart() or part.get_content_maintype() != "multipart":
        return [part]
    forms = [leaves(child) for child in part.get_payload()]
    if part.get_content_subtype() == "alternative":
        full = [[leaf.get_content_type() for leaf in form if is_text(leaf) and written(leaf).strip()] for form in forms]
        best = next((form for kind in ("text/plain", "text/html") for form, kinds in zip(forms, full) if kind in kinds), None)
        forms = [form if best in (None, form) else [leaf for leaf in form if leaf.get_content_type() == CALENDAR or not is_text(leaf)] for form in forms]
    return [leaf for form in forms for leaf in form]


CALENDAR, OUTLOOK = "text/calendar", "application/vnd.ms-outlook"


def is_text(part):
    """Whether a part is text of the letter: an invitation, a text that is not attached, and what claims to have parts and has none."""
    kind = part.get_content_type()
    is_own = part.get_content_disposition() != "attachment" and (kind in ("text/plain", "text/html") or not part.get_filename())
    return kind == CALENDAR or is_own and part.get_content_maintype() in ("text", "multipart")


def written(part, *charsets):
    """The text of a part of a letter."""
    data, kind = part.get_payload(decode=True) or b"", part.get_content_type()
    charsets = filter(None, (part.get_content_charset(), *charsets))
    if kind == "text/html":
        return page_text(decoded(data, *charsets))
    text = decoded(data, *charsets).replace("\r\n", "\n").rstrip("\n") + "\n"
    return re.sub(r"(?s)BEGIN:VTIMEZONE.*?END:VTIMEZONE\n", "", re.sub(r"\n[ \t]", "", text)) if kind == CALENDAR else text


# The properties of an Outlook message, and of a file that is attached to it.
SUBJECT, SENDER, ADDRESSES, SHOWN, HEADERS = "0037", "0C1A", ("5D01", "5D02", "0C1F"), ("0E04", "0E03", "0E02"), "007D"
BODY, PAGE, RICH, NAMES, KIND, DATA, INNER = "1000", "1013", "1009", ("3707", "3704", "3001"), "370E", "3701", "__substg1.0_3701000D"
TIMES = {"0039": "", "0E06": "", "3007": " (created)"}  # sent, delivered, made
SETTINGS = "__properties_version1.0"


def message(source):
    """An Outlook message, by the reader of xlrd: a file, or where it is in one."""
    from xlrd import compdoc

    streams, place, path = (compdoc.CompDoc(source), 0, "") if isinstance(source, bytes) else source

    def stream(name):
        streams.seen = collections.Counter()  # the reader notes what it has read in bytes, which end at 255, and reads nothing twice
        return streams.get_named_stream(path + name)

    def inside(number):
        return {streams.dirlist[child].name: child for child in streams.dirlist[number].children}

    settings = stream(SETTINGS) or b""
    rows = (settings[at : at + 16] for at in range(len(settings) % 16, len(settings), 16))
    fixed = {row[2:4][::-1].hex().upper(): int.from_bytes(row[8:], "little") for row in rows}
    pages = [code_page(fixed[number] & 0xFFFF) for number in ("3FFD", "3FDE") if number in fixed]  # of the message, and of its page

    def value(*numbers, folder=""):
        for number in numbers:
            for kind, charsets in ("001F", ["utf-16-le"]), ("001E", pages), ("0102", pages[::-1]):
                if data := stream(f"{folder}__substg1.0_{number}{kind}"):
                    return data if number in (DATA, RICH) else decoded(data, *charsets, "utf-8", "cp1252").rstrip("\0")
        return ""

    sent = next((line.partition(":")[2].strip() for line in value(HEADERS).splitlines() if line.startswith("Date:")), "")
    for number in TIMES:
        if not sent and 0 < fixed.get(number, 0) < 2**61:
            sent = f"{datetime.datetime(1601, 1, 1) + datetime.timedelta(microseconds=fixed[number] // 10):%a, %d %b %Y %H:%M:%S} +0000{TIMES[number]}"
    name, address = value(SENDER), value(*ADDRESSES)
    sender = f"{name} <{address}>" if name and address not in ("", name) else name or address
    for head, text in zip(HEADS, (sender, *map(value, SHOWN), sent, value(SUBJECT))):
        yield f"{head}: {text}\n" if text else ""
    text, page = value(BODY).replace("\r\n", "\n"), value(PAGE)
    if not (text + page).strip() and (packed := value(RICH)):
        text, is_page = rich(unpacked(packed))
        text, page = ("", text) if is_page else (text, "")
    yield "\n" + (text if text.strip() else page_text(page)).rstrip("\n") + "\n"
    for name, child in inside(place).items():
        if name.startswith("__attach_version1.0_"):
            folder, held = name + "/", inside(child).get(INNER)
            is_letter = held is not None and SETTINGS in inside(held)
            data = (streams, held, f"{path}{folder}{INNER}/") if is_letter else value(DATA, folder=folder) or b""
            yield value(*NAMES, folder=folder), value(KIND, folder=folder) or ("a letter" if is_letter else "a file"), data


def rtf(path):
    """The text of an RTF file."""
    with open(path, "rb") as file:
        data = file.read()
    text, is_page = rich(data) if data.lstrip().startswith(b"{\\") else (decoded(data), False)
    yield page_text(text) if is_page else text
