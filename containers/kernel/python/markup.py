"""The HTML that code shows: the page in a frame, and the text of a page."""

import html
import re
from html.parser import HTMLParser
from itertools import zip_longest

FRAME = re.compile(r"""<iframe\b[^>]*?\ssrcdoc=(["'])(.*?)\1""", re.DOTALL)
FRAMED_FILE = re.compile(r"""\s*<iframe\b[^>]*?\ssrc=(["'])([^"':]+\.html?)\1[^>]*>\s*</iframe>\s*""", re.IGNORECASE)
UNSEEN = {"head", "script", "style", "svg", "template"}
BLOCKS = {"blockquote", "br", "caption", "div", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "p", "pre", "section", "tr", "ul", "ol"}
CELLS = {"td", "th"}
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


def lines_of(page):
    reader = Reader()
    reader.feed(page[:MOST_CHARS])
    reader.end_table()
    return reader.lines


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.lines, self.rows, self.words, self.unseen = [], [], [], 0

    def handle_starttag(self, tag, attrs):
        if tag in UNSEEN:
            self.unseen += 1
        elif tag == "table":
            self.end_table()
        elif tag == "tr":
            self.end_cell()
            self.rows.append([])
        elif tag in CELLS:
            self.end_cell()
        elif tag in BLOCKS:
            self.end_line()

    def handle_endtag(self, tag):
        if tag in UNSEEN:
            self.unseen = max(0, self.unseen - 1)
        elif tag == "table":
            self.end_table()
        elif tag in CELLS:
            self.end_cell(always=True)
        elif tag in BLOCKS:
            self.end_line()

    def handle_data(self, data):
        if not self.unseen:
            self.words.append(data)

    def end_line(self):
        """Ends a line; in a cell, where it cannot, a word."""
        if self.rows:
            self.words.append(" ")
            return
        text = self.take()
        if text:
            self.lines.append(text)

    def end_cell(self, always=False):
        text = self.take()
        if self.rows and (text or always):
            self.rows[-1].append(text)
        elif text:
            self.lines.append(text)

    def end_table(self):
        self.end_cell()
        rows, self.rows = [row for row in self.rows if any(row)], []
        columns = [row for row in rows if len(row) > 1]  # a title fills a row
        widths = [max(len(cell) for cell in column) for column in zip_longest(*columns, fillvalue="")]
        for row in rows:
            self.lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() if len(row) > 1 else row[0])

    def take(self):
        text = " ".join("".join(self.words).split())
        self.words.clear()
        return text
