"""The HTML that code shows: the page in a frame, and the text of a page."""

import html
import re
from itertools import zip_longest

FRAME = re.compile(r"""<iframe\b[^>]*?\ssrcdoc=(["'])(.*?)\1""", re.DOTALL)
FRAMED_FILE = re.compile(r"""\s*<iframe\b[^>]*?\ssrc=(["'])([^"':]+\.html?)\1[^>]*>\s*</iframe>\s*""", re.IGNORECASE)
UNSEEN = re.compile(r"<!--.*?-->|<[!?][^>]*>|<(head|script|style|svg|template)\b.*?</\1\s*>", re.I | re.S)
PIECE = re.compile(r"""<(/?)([a-z][a-z0-9]*)(?:"[^"]*"|'[^']*'|[^"'>]){0,2000}>|[^<]+|<""", re.I)
BLOCKS = {"blockquote", "br", "caption", "div", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "p", "pre", "section", "tr", "ul", "ol"}
MOST_CHARS = 500_000  # of a page that are read
TRUST = ["Make this Notebook Trusted to load map: File -> Trust Notebook"]  # folium's text beside its frame


def unframed(page):
    """Returns the page that the one <iframe> with nothing to read beside it holds escaped, as folium's does, or else the page itself."""
    found = FRAME.findall(page)
    return html.unescape(found[0][1]) if len(found) == 1 and lines_of(FRAME.sub("<iframe", page)) in ([], TRUST) else page


def framed_file(page):
    """Returns the path of the HTML file that is all of a page, as in IPython's IFrame, or nothing."""
    found = FRAMED_FILE.fullmatch(page)
    return html.unescape(found[2]) if found else ""


def read(page):
    """Returns the text of a page, with its tables in columns."""
    return "\n".join(lines_of(unframed(page)))


def lines_of(page, most=MOST_CHARS):
    """The lines of a page's text, with the cells of its tables in columns."""
    lines, rows, words = [], [], []

    def end_cell(always=False):
        text = " ".join(html.unescape("".join(words)).split())
        words.clear()
        if rows and (text or always):
            rows[-1].append(text)
        elif text:
            lines.append(text)

    def end_table():
        end_cell()
        lines.extend(columns([row for row in rows if any(row)]))
        rows.clear()

    for piece in PIECE.finditer(UNSEEN.sub(" ", page[:most])):
        closes, tag = piece[1], (piece[2] or "").lower()
        if not tag:
            words.append(piece[0])
        elif tag == "table":
            end_table()
        elif tag in ("tr", "td", "th"):
            end_cell(always=closes and tag != "tr")
            if tag == "tr" and not closes:
                rows.append([])
        elif tag in BLOCKS and rows:
            words.append(" ")  # a cell is one line
        elif tag in BLOCKS:
            end_cell()
    end_table()
    return lines


def columns(rows):
    table = [row for row in rows if len(row) > 1]  # a title fills a row
    widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() if len(row) > 1 else row[0] for row in rows]
