"""What a person would have seen last of a stream that was written for a terminal.

Progress bars overwrite their line, bars in bars move the cursor up, and colours are codes that
only a terminal takes away.
"""

import codecs
import re

ROWS = 50  # how far up the cursor can go; what is above cannot change any more
COLUMNS = 200  # how far right it can be sent
LINE_CHARS = 2048  # a line twice as long loses its first half to what cannot change
FLOOD_BYTES = 4096  # a chunk that is longer is worth a look whether it is all plain

_colour = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_token = re.compile(r"[^\r\b\x1b\a]+|\x1b\[[0-9;:]{0,64}m|[\r\b\a\x1b]")
_control_sequence = re.compile(r"\x1b\[(?P<parameters>[\x30-\x3f]{0,64})[\x20-\x2f]{0,8}(?P<final>[\x40-\x7e])?")
_short_sequence = re.compile(r"\x1b[\x20-\x2f]{0,8}(?P<final>[\x30-\x7e])?")
_c1 = re.compile("[\x80-\x9f]")  # text in a wrong encoding has them more often than a terminal's program
_text_end = re.compile(r"[\a\x1b\n\x18\x1a]")


def has_controls(text):
    """Whether there is anything in it but text and line ends: mostly there is not."""
    return "\r" in text or "\x1b" in text or "\b" in text or "\a" in text


class Screen:
    """A terminal of ROWS lines that are as long as they like.

    `feed` takes bytes as they come, in pieces of any size, and gives pieces of UTF-8: what has
    left the screen at its top. `rest` is the text that is still on it. Both together are the
    same however the bytes were split.
    """

    def __init__(self):
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.lines = [""]
        self.written_over = [False]
        self.row = 0
        self.column = 0
        self.saved = (0, 0)
        self.pending = ""  # the beginning of a control sequence
        self.in_text = False  # inside a sequence that holds text, such as a window's title
        self.settled = []
        self.line_ends = 0  # in what was fed
        self.shown_line_ends = 0  # in what was given and in what is on the screen

    def feed(self, chunk, final=False):
        line_ends = chunk.count(10)
        self.line_ends += line_ends
        if len(chunk) > FLOOD_BYTES and self._is_flood(chunk):
            self._feed_flood(chunk, line_ends)
        else:
            text = self._decode(chunk, final)
            if self.pending or self.in_text or has_controls(text):
                self._feed_controls(text)
            else:
                self._feed_plain(text)
        if final:
            self.pending = ""
        settled = [piece if isinstance(piece, bytes) else piece.encode("utf-8") for piece in self.settled]
        self.settled.clear()
        return settled

    def _decode(self, chunk, final):
        text = self.decoder.decode(chunk, final)
        return text if text.isascii() else _c1.sub("", text)

    def rest(self):
        return "\n".join(map(self._shown, range(len(self.lines))))

    def last_line(self):
        """The lowest line that has anything on it."""
        return next((line for line in map(str.strip, reversed(self.lines)) if line), "")

    # -- floods: as bytes, because each step on all of a chunk costs as much as reading it did

    def _is_flood(self, chunk):
        """Whether a chunk is plain text at the end of the screen."""
        return (
            self._is_at_end()
            and not (self.pending or self.in_text or self.decoder.getstate()[0])
            and chunk.isascii()
            and not (b"\x1b" in chunk or b"\r" in chunk or b"\b" in chunk or b"\a" in chunk)
        )

    def _is_at_end(self):
        return self.row == len(self.lines) - 1 and self.column == len(self.lines[self.row])

    def _feed_flood(self, chunk, line_ends):
        """Does what _feed_plain does."""
        first = chunk.find(b"\n")
        if first < 0:
            return self._feed_line(chunk)
        self._write(chunk[:first].decode("ascii"))
        self._new_line()
        first += 1
        cut = self._screen_start(chunk, b"\n", first)
        if cut > first:
            self._clear(chunk[first:cut], line_ends - 1 - chunk.count(10, cut))
        self._write_lines(chunk[cut:].decode("ascii"))

    def _feed_line(self, chunk):
        """Takes a long part of one line."""
        kept = LINE_CHARS + (self.column + len(chunk)) % LINE_CHARS
        if kept > len(chunk):
            return self._write(chunk.decode("ascii"))
        self.settled += self._above(), self.lines[self.row], chunk[:-kept]
        self.lines, self.written_over, self.row = [chunk[-kept:].decode("ascii")], self.written_over[-1:], 0
        self.column = kept

    # -- text

    def _feed_plain(self, text):
        """Writes text without controls other than line ends."""
        line, end, text = text.partition("\n")
        self._write(line)
        if not end:
            return
        self._new_line()
        cut = self._screen_start(text, "\n", 0) if self._is_at_end() else 0
        if cut:
            self._clear(text[:cut], text.count("\n", 0, cut))
        self._write_lines(text[cut:])

    def _clear(self, text, line_ends):
        """Lets the screen and whole lines of text go by, where the cursor is in a line that is empty."""
        self.shown_line_ends += line_ends
        self.settled += self.rest(), text
        self.lines, self.written_over, self.row = [""], [False], 0

    def _write_lines(self, text):
        lines = text.split("\n")
        if self.lines == [""] and len(text) < 2 * LINE_CHARS and len(lines) <= ROWS:  # as it is after _clear
            self.lines, self.written_over = lines, self.written_over + [False] * (len(lines) - 1)
            self.row, self.column = len(lines) - 1, len(lines[-1])
            self.shown_line_ends += self.row
            return
        self._write(lines[0])
        for line in lines[1:]:
            self._new_line()
            self._write(line)

    @staticmethod
    def _screen_start(text, newline, start):
        """Where the last ROWS lines of a text begin; `start` where it has no more behind that."""
        at = len(text)
        for _ in range(ROWS):
            at = text.rfind(newline, start, at)
            if at < 0:
                return start
        return at + 1

    def _write(self, text):
        """Writes text without any control at the cursor, over what is there."""
        if not text:
            return
        line, column = self.lines[self.row], self.column
        if column < len(line):
            self.written_over[self.row] = True
            line = line[:column] + text + line[column + len(text) :]
        else:
            line += " " * (column - len(line)) + text
        self.lines[self.row] = line
        self.column = column + len(text)
        if len(line) >= 2 * LINE_CHARS:
            self._shorten(line)

    def _shorten(self, line):
        """Settles the beginning of a line, as much as if it had come character by character."""
        kept = LINE_CHARS + len(line) % LINE_CHARS
        self.settled += self._above(), line[:-kept]
        del self.lines[: self.row], self.written_over[: self.row]
        self.row = 0
        self.lines[0] = line[-kept:]
        self.column -= len(line) - kept

    def _above(self):
        return "".join(self._shown(row) + "\n" for row in range(self.row))

    def _new_line(self):
        self.column = 0
        self.row += 1
        if self.row < len(self.lines):
            return
        self._append_line()
        if len(self.lines) > ROWS:
            self.settled.append(self._shown(0) + "\n")
            del self.lines[0], self.written_over[0]
            self.row -= 1

    def _append_line(self):
        self.lines.append("")
        self.written_over.append(False)
        self.shown_line_ends += 1

    def _shown(self, row):
        """A line without the blanks that something was wiped out with."""
        return self.lines[row].rstrip(" ") if self.written_over[row] else self.lines[row]

    # -- controls

    def _feed_controls(self, text):
        text, self.pending = (self.pending + text).replace("\r\n", "\n"), ""
        if not self.in_text and self._feed_coloured(text):
            return
        at = 0
        while at < len(text):
            if self.in_text:
                at = self._pass_text(text, at)
                continue
            match = _token.match(text, at)
            at, token = match.end(), match.group()
            if token == "\x1b":
                at = self._obey_escape(text, match.start())
            elif token == "\r":
                self.column = 0
            elif token == "\b":
                self.column = max(0, self.column - 1)
            elif token[0] not in "\x1b\a":
                self._feed_plain(token)

    def _feed_coloured(self, text):
        """Takes text that has no other controls than colours, if it is such, faster than one by one."""
        last = text.rfind("\x1b")
        match = _control_sequence.match(text, last) if last >= 0 else None
        end = last if match and match.end() == len(text) and match["final"] is None else len(text)
        plain = _colour.sub("", text[:end])
        if has_controls(plain):
            return False
        self.pending = text[end:]
        self._feed_plain(plain)
        return True

    def _pass_text(self, text, at):
        """Passes over the text in a sequence. A line's end ends it too: it may never have been one."""
        end = _text_end.search(text, at)
        if end is None:
            return len(text)
        self.in_text = False
        return end.start() if end.group() in "\x1b\n" else end.end()

    def _obey_escape(self, text, at):
        """Obeys the sequence at `at` and tells where it ends; one that is not all there has to wait."""
        is_control = text.startswith("\x1b[", at)
        match = (_control_sequence if is_control else _short_sequence).match(text, at)
        final = match["final"]
        if final is None:
            if match.end() == len(text):
                self.pending = match.group()
        elif is_control:
            self._obey(final, match["parameters"])
        elif final in "]PX^_" and match.end() == at + 2:
            self.in_text = True
        else:
            self._obey_short(final)
        return match.end()

    def _obey_short(self, final):
        if final == "7":
            self.saved = (self.row, self.column)
        elif final == "8":
            self._go(*self.saved)
        elif final == "M":
            self._go(self.row - 1, self.column)
        elif final == "D":
            column = self.column
            self._new_line()
            self.column = column
        elif final == "E":
            self._new_line()
        elif final == "c":
            self._erase(2)
            self._go(0, 0)

    def _obey(self, final, parameters):
        if parameters[:1] in ("<", "=", ">", "?"):  # modes and questions
            return
        numbers = [int(part) if part.isdecimal() else 0 for part in parameters.replace(":", ";").split(";")[:2]]
        first = numbers[0]
        step = min(first or 1, COLUMNS)
        if final == "A":
            self._go(self.row - step, self.column)
        elif final in "Be":
            self._go(self.row + step, self.column)
        elif final in "Ca":
            self._go(self.row, self.column + step)
        elif final == "D":
            self._go(self.row, self.column - step)
        elif final == "E":
            self._go(self.row + step, 0)
        elif final == "F":
            self._go(self.row - step, 0)
        elif final in "G`":
            self._go(self.row, (first or 1) - 1)
        elif final == "d":
            self._go((first or 1) - 1, self.column)
        elif final in "Hf":
            self._go((first or 1) - 1, ((numbers + [0])[1] or 1) - 1)
        elif final == "K":
            self._erase_in_line(first)
        elif final == "J":
            self._erase(first)
        elif final == "P":
            self._delete(step)
        elif final == "s":
            self.saved = (self.row, self.column)
        elif final == "u":
            self._go(*self.saved)

    def _go(self, row, column):
        """Moves the cursor; below the last line there are empty ones, up to the lowest row."""
        self.row = max(0, min(row, ROWS - 1))
        while self.row >= len(self.lines):
            self._append_line()
        self.column = max(0, min(column, max(COLUMNS, len(self.lines[self.row]))))

    def _erase_in_line(self, what):
        line = self.lines[self.row]
        self.written_over[self.row] = True
        if what == 0:
            self.lines[self.row] = line[: self.column]
        elif what == 1:
            self.lines[self.row] = " " * min(self.column + 1, len(line)) + line[self.column + 1 :]
        elif what == 2:
            self.lines[self.row] = ""

    def _erase(self, what):
        if what == 0:
            self._erase_in_line(0)
            self.shown_line_ends -= len(self.lines) - self.row - 1
            del self.lines[self.row + 1 :], self.written_over[self.row + 1 :]
        elif what == 1:
            self._erase_in_line(1)
            for row in range(self.row):
                self.lines[row] = ""
        elif what == 2:
            for row in range(len(self.lines)):
                self.lines[row] = ""

    def _delete(self, count):
        line = self.lines[self.row]
        self.written_over[self.row] = True
        self.lines[self.row] = line[: self.column] + line[self.column + count :]
