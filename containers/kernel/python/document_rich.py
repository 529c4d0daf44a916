"""RTF as text: that of files, and the packed one of Outlook."""

import codecs
import re

from document_office import shifted

NAMES = {10000: "mac_roman", 10007: "mac_cyrillic", 20866: "koi8_r", 50220: "iso2022_jp", 51932: "euc_jp", 51949: "euc_kr", 54936: "gb18030"}
# The code page of a font's charset; others have the usual one of the file.
CHARSETS = {
    77: 10000, 128: 932, 129: 949, 130: 1361, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251, 222: 874,
    238: 1250, 255: 437,
}
PIECE = re.compile(rb"\\'([\da-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\([^a-zA-Z])|([{}])|([^\\{}\r\n\0]+)|[\r\n\0]+|\\", re.DOTALL)
SIGNS = {
    **dict.fromkeys(("par", "line", "sect", "page", "column", "row", "nestrow", "\n", "\r"), "\n"), "tab": "\t", "cell": " | ", "nestcell": " | ",
    "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "bullet": "•", "_": "-", "zwj": "\u200d", "zwnj": "\u200c",
    **dict.fromkeys(("emspace", "enspace", "qmspace", "~"), " "),
}
# Groups that are no text, those that are although they are marked as none, and what stands around some: \x02 and \x03 take the spaces beside.
UNSEEN = set("fonttbl colortbl stylesheet info pict shprslt xe tc sn sv nonesttables fldinst upr deleted".split())
SEEN = set("shpinst do htmltag annotation moMath footnote".split())
AROUND = {"annotation": ("[comment: \x02", "\x03]"), "footnote": ("[\x02", "\x03]"), "moMath": ("[formula: \x02", "\x03]")}
AROUND.update((kind + of, (f"[{kind}: \x02", "\x03]\n")) for kind in ("header", "footer") for of in ("", "l", "r", "f"))
KEPT = ("f", "deff", "uc", "htmlrtf", "super", "sub", "intbl")  # settings of a group
RESET = {"plain": {"f": None, "super": 0, "sub": 0}, "nosupersub": {"super": 0, "sub": 0}, "pard": {"intbl": 0}}


def code_page(number):
    """Python's name of a code page of Windows."""
    name = f"iso8859-{number - 28590}" if 28590 < number < 28606 else NAMES.get(number, f"cp{number}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def rich(data):
    """The text of RTF, and whether that is a page of HTML, which Outlook puts in it."""
    is_page, usual, fonts, made, raw, stack = b"\\fromhtml" in data[:4096], "cp1252", {}, [], bytearray(), []
    group, at, skipped, opened = {**dict.fromkeys(KEPT, 0), **RESET["plain"], "uc": 1, "seen": True, "end": ""}, 0, 0, ""

    def add(text):
        if group["seen"] and not (is_page and group["htmlrtf"]):
            made.append(text)

    while match := PIECE.match(data, at):
        at = match.end()
        if match.lastindex is None:
            continue
        code, word, number, sign, brace, text = match.groups()
        if code or text or sign in (b"\\", b"{", b"}"):
            piece = bytes.fromhex(code.decode()) if code else text or sign
            raw += piece[skipped:]
            skipped, opened = max(0, skipped - len(piece)), ""
            continue
        font = group["deff"] if group["f"] is None else group["f"]
        add(shifted(raw.decode(fonts.get(font, usual), "replace"), group["super"] - group["sub"]))
        raw.clear()
        word, number = (word or sign or brace).decode("latin-1"), int(number or 1)
        is_marked, opened = opened == "{*", opened + word if word in ("{", "*") else ""
        if word == "{":
            stack.append(group)
            group = {**group, "end": ""}
        elif word == "}":
            add(group["end"])
            group = stack.pop() if stack else group
        elif word == "ud" and len(stack) > 1:
            group["seen"] = stack[-2]["seen"]
        elif word in UNSEEN or is_marked and word not in SEEN:
            group["seen"] = False
        elif word in AROUND:
            before, group["end"] = AROUND[word]
            add(before)
        elif word in KEPT:
            group[word] = number
        elif word in RESET:
            group.update(RESET[word])
        elif word in ("fcharset", "cpg"):
            fonts[font] = code_page(CHARSETS.get(number, number)) if word == "cpg" or number in CHARSETS else usual
        elif word in ("ansicpg", "mac", "pc", "pca"):
            usual = code_page({"mac": 10000, "pc": 437, "pca": 850}.get(word, number))
        elif word == "bin":
            at += max(0, number)
        elif word == "u":
            add(chr(number & 0xFFFF))
        elif word in SIGNS:
            add(" " if word == "par" and group["intbl"] else SIGNS[word])
        skipped = group["uc"] if word == "u" else 0
    text = "".join(made).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text if is_page else re.sub(r"\x02\s*|\s*\x03|(?m:( \|)? +$)", "", text).strip("\n") + "\n", is_page


# The texts that a packed RTF can refer back to at its beginning.
BEFORE = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifSymbolArialTimes New RomanCourier"
    rb"{\colortbl\red0\green0\blue0" b"\r\n" rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)


def unpacked(data):
    """The RTF that Outlook has packed."""
    if data[8:12] == b"MELA":
        return data[16:]
    made, at = bytearray(BEFORE), 16
    while at + 1 < len(data):
        flags, at = data[at], at + 1
        for bit in range(8):
            if not flags >> bit & 1:
                made += data[at : at + 1]
                at += 1
                continue
            word = int.from_bytes(data[at : at + 2])
            back, at = (len(made) - (word >> 4)) % 4096, at + 2
            if not back or at > len(data):
                return made[len(BEFORE) :]
            for _ in range((word & 15) + 2):
                made.append(made[-back])
    return made[len(BEFORE) :]
