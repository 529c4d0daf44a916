"""Word, PowerPoint and OpenDocument as text, and the parts of theirs that workbooks have too: charts, drawings, comments."""

import posixpath
import re
import tempfile
import zipfile
from xml.etree import ElementTree

UNPACKED_BYTES = 200 << 20  # of all that is in a document
MANIFEST = "META-INF/manifest.xml"
SAME_ROW = 250_000  # a slide's shapes whose tops are as near stand side by side, in 914,400ths of an inch
MOST_SPACES = 100  # of one element
MOST_CHUNK, MOST_DEEP = 50 << 20, 2  # bytes of a document in a document, and how deep they are read
READERS = {}  # of files by their type: document.py has them
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


class Refused(Exception):
    """An answer that is an error: unsupported, encrypted, too_large, missing or broken."""

    def __init__(self, error, detail=""):
        super().__init__(error, detail)
        self.error, self.detail = error, detail


def local(element):
    return element.tag.rpartition("}")[2]


def attribute(element, name, otherwise=""):
    """An attribute by its name, in whatever namespace."""
    return next((value for key, value in element.items() if key.rpartition("}")[2] == name), otherwise)


def each(element, *names):
    return (found for found in element.iter() if local(found) in names)


class Package:
    """The parts of a document, and how they refer to one another."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        # zipfile gives no more of a file than is declared.
        if sum(info.file_size for info in self.archive.infolist()) > UNPACKED_BYTES:
            raise Refused("too_large")
        self.names = set(self.archive.namelist())
        if MANIFEST in self.names and b"encryption-data" in self.archive.read(MANIFEST):
            raise Refused("encrypted")

    def xml(self, name):
        """A part's root; without such a part, one that is empty."""
        return ElementTree.fromstring(self.archive.read(name)) if name in self.names else ElementTree.Element("none")

    def related(self, name):
        """What a part refers to: by its id there, the kind and the name of another part."""
        folder, _, file = name.rpartition("/")
        return {
            one.get("Id"): (one.get("Type", "").rpartition("/")[2], posixpath.normpath(posixpath.join("/", folder, one.get("Target", "")))[1:])
            for one in self.xml(posixpath.join(folder, "_rels", file + ".rels"))
        }

    def of_kind(self, name, kind):
        return [part for found, part in self.related(name).values() if found == kind and part in self.names]

    def type_of(self, name):
        """The declared type of a part."""
        kinds = {found.get("PartName") or "." + found.get("Extension", "").lower(): found.get("ContentType") for found in self.xml("[Content_Types].xml")}
        return kinds.get("/" + name) or kinds.get("." + name.rpartition(".")[2].lower()) or ""

    def main(self, usual):
        """The part that is the document."""
        name = next(iter(self.of_kind("", "officeDocument")), usual)
        if name not in self.names:
            raise Refused("broken", f"there is no {name} in it")
        return name


# Elements without text of the document: removed or moved text, and the second form of a text box.
LEFT_OUT = ("Fallback", "moveFrom", "tracked-changes")
SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "p": "\n", "s": " ", "noBreakHyphen": "-"}
NOTES = {"footnoteReference": "[note {}]", "endnoteReference": "[endnote {}]", "commentReference": "[comment {}]"}
ASIDE = ("note", "annotation")  # of OpenDocument, in the middle of a paragraph
BOXES = ("txbxContent", "text-box")
CELLS = ("tc", "table-cell", "covered-table-cell")
# Formulas: what stands before each piece of one, in Word's order and MathML's.
FRACTION, RAISED, LOWERED, BOTH = ("", "/"), ("", "^"), ("", "_"), ("", "_", "^")
MATH = {
    "f": FRACTION, "mfrac": FRACTION, "sSup": RAISED, "msup": RAISED, "limUpp": RAISED, "mover": RAISED, "sSub": LOWERED, "msub": LOWERED,
    "limLow": LOWERED, "munder": LOWERED, "sSubSup": BOTH, "msubsup": BOTH, "munderover": BOTH, "sPre": ("_", "^", ""), "rad": ("", "√"),
    "nary": ("_", "^", " "), "msqrt": ("√",),
}
FORMULA = re.compile("/(math|MathML)}")
HIGH = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
LOW = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")


def shifted(text, height):
    """Raised or lowered text, so that 10²³ is not 1023. Words of several letters, as in 1st, stay as they are."""
    if height == 0 or not text.strip() or text.isalpha() and len(text) > 1:
        return text
    other = text.translate(HIGH if height > 0 else LOW)
    return other if not set(other) & set(text) else ("^" if height > 0 else "_") + grouped(text)


def grouped(text):
    return text if re.fullmatch(r"\d*|.", text.strip()) else f"({text.strip()})"


class Text:
    """The text of a part; mixed, where it stands between the elements and not in a `t`."""

    def __init__(self, package, part, mixed=False):
        self.package, self.part, self.mixed, self.pages = package, part, mixed, 0
        self.aside = []  # what is in a paragraph and no text of it: boxes, charts, pictures
        self.heights, self.hidden = {}, set()  # styles of OpenDocument
        for style in each(package.xml("content.xml"), "style") if mixed else ():
            for is_set in style:
                if position := attribute(is_set, "text-position"):
                    self.heights[attribute(style, "name")] = position.startswith("super") - position.startswith("sub")
                if attribute(is_set, "visibility") == "hidden":
                    self.hidden.add(attribute(style, "name"))

    def lines(self, element):
        """The paragraphs, and a line for each row of a table."""
        name = local(element)
        if name in ("p", "h"):
            outer, self.aside = self.aside, []
            yield self.written(element).strip("\n") + "\n"
            beside, self.aside = self.aside, outer
            yield from beside
        elif name in ("tr", "table-row"):
            cells = [cell for child in element for cell in ([child] if local(child) in CELLS or choice(child) else each(child, "tc"))]
            yield " | ".join(" ".join(line.strip() for line in self.lines(cell)) for cell in cells) + "\n"
        elif name == "sdt" and (chosen := choice(element)):
            yield chosen + "\n"
        elif name not in LEFT_OUT:
            if self.mixed and name == "page":
                self.pages += 1
                yield heading("slide", self.pages, attribute(element, "style-name") in self.hidden)
            yield from self.beside(element, name)
            for child in element:
                yield from self.lines(child)

    def beside(self, element, name):
        """The lines of what is drawn, and of a document in the document."""
        if name == "altChunk":
            yield from chunk(self.package, self.package.related(self.part).get(attribute(element, "id"), ("", ""))[1])
        elif name in ("docPr", "cNvPr") and "/picture}" not in element.tag and element.get("descr", "").strip():
            yield f"[picture: {' '.join(element.get('descr').split())}]\n"
        elif name in ("title", "desc") and ":svg-" in element.tag:
            yield f"[picture: {' '.join(''.join(element.itertext()).split())}]\n"
        elif name in ("chart", "relIds") and not self.mixed:
            _, part = self.package.related(self.part).get(attribute(element, "id") or attribute(element, "dm"), ("", ""))
            yield from chart(self.package.xml(part)) if name == "chart" else Text(self.package, part).lines(self.package.xml(part))
        elif self.mixed and name == "object":
            root = self.package.xml(posixpath.normpath(attribute(element, "href")) + "/content.xml")
            formula = next(each(root, "math"), None)
            yield from self.lines(root) if formula is None else [self.written(formula).strip() + "\n"]

    def written(self, element):
        """The text of a paragraph, or of what is in it."""
        name = local(element)
        if name in NOTES:
            return NOTES[name].format(attribute(element, "id"))
        if name == "sym":
            return symbol(attribute(element, "char"), attribute(element, "font"))
        if name in ("fldChar", "sdt") and (chosen := choice(element)):
            return chosen
        if FORMULA.search(element.tag) and (text := self.formula(element, name)) is not None:
            return text
        text = SPACES.get(name, "")
        if self.mixed and text == " ":
            text *= min(int(attribute(element, "c", "1")), MOST_SPACES)
        if self.mixed or name == "t":
            text += element.text or ""
        for child in element:
            kind = local(child)
            if self.mixed and kind in ASIDE:
                text += "[" + " ".join("".join(self.lines(child)).split()) + "]"
            elif kind in BOXES:
                self.aside += self.lines(child)
            elif found := list(self.beside(child, kind)):
                self.aside += found
            elif not kind.endswith("Pr") and kind not in LEFT_OUT:
                text += self.written(child)
            if self.mixed:
                text += child.tail or ""
        return shifted(text, self.height(element, name)) if name in ("r", "span") else text

    def height(self, element, name):
        """Whether a run is raised (1), lowered (-1) or neither."""
        if name == "span":
            return self.heights.get(attribute(element, "style-name"), 0)
        for setting in element:
            if local(setting) == "rPr":
                place = "".join(attribute(found, "val") for found in each(setting, "vertAlign"))
                shift = float(setting.get("baseline", "0").rstrip("%"))
                return {"superscript": 1, "subscript": -1}.get(place, (shift > 0) - (shift < 0))
        return 0

    def formula(self, element, name):
        """A piece of a formula on one line; None: it is what its pieces are."""
        pieces = [self.written(child) for child in element if not local(child).endswith("Pr")]
        settings = {local(found): attribute(found, "val") for child in element if local(child).endswith("Pr") for found in child}
        if name == "d":
            return settings.get("begChr", "(") + settings.get("sepChr", "|").join(pieces) + settings.get("endChr", ")")
        if name in ("m", "mtable", "eqArr"):
            return "[" + "; ".join(pieces) + "]"
        if name in ("mr", "mtr"):
            return ", ".join(pieces)
        if name not in MATH:
            return None
        if name == "mroot":
            pieces.reverse()
        sign = settings.get("chr", "∫") if name == "nary" else ""
        return sign + "".join(before + grouped(piece) for before, piece in zip(MATH[name], pieces) if piece.strip() or before == "√")

    def shapes(self, tree, spots):
        """What is on a slide, from above to below and from left to right."""
        rows, last = [], None
        for (y, x), shape in sorted(((self.place(shape, spots), shape) for shape in tree if local(shape) not in ("nvGrpSpPr", "grpSpPr")), key=lambda it: it[0]):
            if last is None or y - last > SAME_ROW:
                rows.append([])
                last = y
            rows[-1].append((x, shape))
        for row in rows:
            for _, shape in sorted(row, key=lambda it: it[0]):
                yield from self.shapes(shape, {}) if local(shape) == "grpSp" else (line for line in self.lines(shape) if line.strip())

    def place(self, shape, spots):
        for offset in each(shape, "off"):
            return spot(offset)
        for holder in each(shape, "ph"):
            return spots.get(holder.get("idx")) or spots.get(holder.get("type"), (0, 0))
        return 0, 0


def choice(element):
    """The state of a form's box, or the choice of its list; "": it is none."""
    settings = next((child for child in element if local(child) in ("ffData", "sdtPr")), ())
    for kind in settings:
        found = {local(one): attribute(one, "val", "1") for one in kind}
        if local(kind) in ("checkBox", "checkbox"):
            return "☒" if found.get("checked", found.get("default", "0")) in ("1", "true", "on") else "☐"
        if local(kind) == "ddList":
            entries, chosen = [attribute(one, "val") for one in kind if local(one) == "listEntry"], found.get("result", found.get("default", "0"))
            return entries[int(chosen)] if re.fullmatch("[0-9]{1,9}", chosen) and int(chosen) < len(entries) else "[a choice that is not in its list]"
    return ""


# Symbols of fonts without a public table, by their numbers.
DINGBATS = {
    "Wingdings": {
        0x4A: "☺", 0x4C: "☹", 0x6C: "●", 0x6E: "■", 0x6F: "☐", 0x71: "❑", 0x76: "❖", 0x9F: "•", 0xA7: "▪", 0xA8: "☐", 0xD8: "➢", 0xDF: "←", 0xE0: "→",
        0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    },
    "Wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0xA3: "☐"},
}


def symbol(number, font):
    """A character by its number in a font; one of a font of symbols that is not known here is named."""
    at = int(number, 16) if re.fullmatch("[0-9A-Fa-f]{1,6}", number) else 0
    known = DINGBATS.get(font, {}).get(at & 0xFF)
    if font == "Symbol" and at & 0xFF > 0x20:
        try:
            from pypdf._codecs import charset_encoding

            known = charset_encoding["/Symbol"][at & 0xFF]
        except (ImportError, LookupError):
            pass
    if known and not "\ue000" <= known <= "\uf8ff":
        return known
    is_plain = (0x20 < at < 0x7F or 0xA0 <= at < 0xD800) and not re.search("(?i)symbol|ding|^WP ", font)
    return chr(at) if is_plain else f"[symbol {number} of {font or 'a font without a name'}]"


depth = 0  # of the document that is read, in others


def chunk(package, part):
    """The text of a document that stands in another one: a page, a letter, plain text, or what else can be read."""
    global depth
    from document_letters import decoded, page_text

    size = package.archive.getinfo(part).file_size if part in package.names else 0
    kind, why = package.type_of(part), "its text is not read"
    if depth == MOST_DEEP or not 0 < size <= MOST_CHUNK:
        yield f"[part {part}: {kind or 'not there'}, {size} bytes; it is {'too deep' if depth == MOST_DEEP else 'empty or too large'} to be read]\n"
        return
    data, depth = package.archive.read(part), depth + 1
    try:
        mime = "text/rtf" if data.startswith(b"{\\rtf") else "message/rfc822" if re.match(rb"(?i)\s*(mime-version|from|subject|message-id):", data) else kind
        reader = READERS.get(WORD if data.startswith(b"PK\3\4") else mime)
        if reader:
            with tempfile.NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                yield from reader(file.name)
            return
        if "html" in kind or "text/" in kind and not mime.endswith("rtf") or "xml" in kind:
            named = re.search(rb"(?i)charset\s*=\s*[\"']?([\w-]+)", data[:2048])
            charsets = ["utf-16"] if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ["utf-8-sig", *([named[1].decode()] if named else ())]
            text = decoded(data, *charsets)
            yield text.replace("\r\n", "\n").rstrip("\n") + "\n" if kind == "text/plain" else page_text(text)
            return
    except MemoryError:
        raise
    except Exception as error:
        why = f"it cannot be read: {getattr(error, 'error', '') or type(error).__name__}"
    finally:
        depth -= 1
    yield f"[part {part}: {kind}, {size} bytes; {why}]\n"


def spot(offset):
    return int(offset.get("y", 0)), int(offset.get("x", 0))


def heading(kind, number, hidden=False):
    return f"--- {kind} {number}{' (hidden)' if hidden else ''} ---\n"


def chart(root):
    """The titles of a chart, and its numbers as a table."""
    tables, titles = [], []
    for title in each(root, "title"):
        titles += [" ".join("".join(found.text or "" for found in each(title, "t", "v")).split())]
    yield f"[chart: {'; '.join(filter(None, titles))}]\n"
    for series in each(root, "ser"):
        parts = {local(part): part for part in series}
        names = " ".join(points(parts.get("tx")).values())
        along, values = points(parts.get("cat", parts.get("xVal"))), points(parts.get("val", parts.get("yVal")))
        if not tables or along and along != tables[-1][0]:
            tables.append((along, []))
        tables[-1][1].append((names, values))
    for along, columns in tables:
        yield " | ".join(["", *(name for name, _ in columns)]) + "\n"
        for at in sorted(set(along).union(*(values for _, values in columns))):
            yield " | ".join([along.get(at, ""), *(values.get(at, "") for _, values in columns)]) + "\n"


def points(of):
    """The values of a chart's axis or series by their numbers, those of several levels together; where none are kept, what they refer to."""
    found = {}
    for point in each(of, "pt") if of is not None else ():
        at = int(point.get("idx", 0))
        found[at] = " ".join(filter(None, ("".join(value.text or "" for value in each(point, "v")), found.get(at))))
    return found or {0: named.text or "" for named in (each(of, "f", "v") if of is not None else ())}


FRAME = {"sldNum", "sldImg", "hdr", "ftr", "dt"}  # what a page of notes has around them


def word(path):
    """A Word file: headers, the text, notes and comments, footers."""
    package = Package(path)
    main = package.main("word/document.xml")

    def around(kind):
        texts = ("".join(Text(package, part).lines(package.xml(part))) for part in package.of_kind(main, kind))
        return (f"--- {kind} ---\n{text}" for text in dict.fromkeys(texts) if text.strip())

    yield from around("header")
    yield from Text(package, main).lines(package.xml(main))
    for kind, mark in zip(("footnotes", "endnotes", "comments"), NOTES.values()):
        for part in package.of_kind(main, kind):
            notes = [note for note in package.xml(part) if attribute(note, "type", "normal") == "normal"]
            if notes:
                yield f"--- {kind} ---\n"
            for note in notes:
                who = f" {attribute(note, 'author')}:" if attribute(note, "author") else ""
                yield f"{mark.format(attribute(note, 'id'))}{who} " + "".join(Text(package, part).lines(note)).strip() + "\n"
    yield from around("footer")


def slides(path):
    """The slides in their order, each with its notes and comments."""
    package = Package(path)
    main = package.main("ppt/presentation.xml")
    files, authors = package.related(main), {}
    for part in package.of_kind(main, "commentAuthors") + package.of_kind(main, "authors"):
        authors.update((attribute(who, "id"), attribute(who, "name")) for who in package.xml(part))
    # A slide's id is in no namespace, and refers to nothing.
    ids = (value for slide in each(package.xml(main), "sldId") for key, value in slide.items() if key.endswith("}id"))
    parts = [part for _, part in (files.get(id, ("", "")) for id in ids) if part in package.names]
    for number, part in enumerate(parts, 1):
        root = package.xml(part)
        yield heading("slide", number, root.get("show") in ("0", "false"))
        yield from Text(package, part).shapes(next(each(root, "spTree"), ()), spots_of(package, part))
        for notes in package.of_kind(part, "notesSlide"):
            written = (shape for shape in next(each(package.xml(notes), "spTree"), ()) if not FRAME.intersection(one.get("type") for one in each(shape, "ph")))
            if text := "".join(line for shape in written for line in Text(package, notes).lines(shape)).strip():
                yield heading("notes of slide", number) + text + "\n"
        for comments in package.of_kind(part, "comments"):
            for comment in each(package.xml(comments), "cm", "reply"):
                said = " ".join(found.text or "" for child in comment if local(child) in ("text", "txBody") for found in each(child, "text", "t"))
                yield f"[comment {authors.get(comment.get('authorId'), '')}: {said}]\n"


def spots_of(package, slide):
    """Where a slide's layout and master have the places of its shapes."""
    spots = {}
    layouts = package.of_kind(slide, "slideLayout")
    for part in layouts + [master for layout in layouts for master in package.of_kind(layout, "slideMaster")]:
        for shape in each(package.xml(part), "sp"):
            for holder in each(shape, "ph"):
                for offset in each(shape, "off"):
                    for key in (holder.get("idx") if part in layouts else None, holder.get("type")):
                        spots.setdefault(key, spot(offset))
    spots.pop(None, None)
    return spots


def open_document(path):
    """A text or a presentation of OpenDocument, with the headers and footers of its styles."""
    package = Package(path)
    if "content.xml" not in package.names:
        raise Refused("broken", "there is no content.xml in it")
    text, around = Text(package, "content.xml", mixed=True), package.xml("styles.xml")
    for kind in "header", "footer":
        if kind == "footer":
            yield from text.lines(package.xml("content.xml"))
        found = dict.fromkeys("".join(text.lines(part)) for part in each(around, kind))
        yield from (f"--- {kind} ---\n{one}" for one in found if one.strip())
