"""Displays of code: pictures and documents, in frames and as files below output/."""

import itertools
import json
import os
import sys
import time
import weakref

from imports import import_seldom
from mimes import DATA, PAGE, PLOTLY, SHORT_HTML, SHOWN_MIMES, as_bytes, text_of
from pictures import MOST_PIXELS, RASTERS, figure_png, figure_title, pixels_of, smaller_picture

MOST_ENTRIES = 2000  # of the work directory, looked at after a run
MTIME_NS = 20_000_000  # a file may look so much older than it is
MOST_REDRAW_SECONDS = 10  # of a run's pauses; later ones redraw once a second


class Displays:
    """Shows images and documents: a file in full, and a frame where it is small enough."""

    def __init__(self, settings, kernel):
        self.settings = settings
        self.kernel = kernel
        self.numbers = {}
        self.files = {}  # of this run's displays, by key: the place, and the state when written
        self.pictures = {}  # of this run's displays: the hashes by key
        self.redrawn = weakref.WeakKeyDictionary()  # figures that code redraws: the keys of their displays
        self.redraws = itertools.count(1)
        self.saved = weakref.WeakKeyDictionary()  # figures that code saved: the file, and its state then
        self.pages = None  # of this run: pages.Pages
        self.whole = {}  # inspected pages: their state then
        self.began = 0
        self.claims = {}  # files of code's own that displays of this run lead to: their keys and titles
        self.redraw_seconds = 0
        self.next_redraw = 0
        self.capturing = lambda: None  # gives the publisher of code that captures displays

    def begin_run(self):
        self.pictures.clear()
        self.files.clear()
        self.pages = None
        self.began = time.time_ns() - MTIME_NS
        self.claims.clear()
        self.redraw_seconds = 0

    def clear(self, wait):
        """Takes back the run's displays and output, with wait as soon as there is a new one."""
        self.kernel.flush()  # earlier output may wait for the end of its line
        threads = self.kernel.threads
        threads.before_output(self._clear)
        if not wait:
            threads.begin_output()

    def _clear(self):
        if not self.kernel.in_run():
            return
        self.pictures.clear()
        self.claims.clear()
        for key in list(self.files):
            self._remove(key)
        self.kernel.clear_output()

    def publish(self, bundle, alt="", again=True, stem="image", key="", saved=""):
        """Shows a MIME bundle: its best picture, or else its text on stdout.

        With a key it replaces the run's display of the same key. With again false it skips a picture already shown there, or
        without a key anywhere in this run. saved is the file that code saved it to. Code that captures displays gets it
        instead.
        """
        capturing = self.capturing()
        if capturing is not None:
            capturing.publish(bundle, {"alt": alt})
            return
        if isinstance(bundle.get(DATA), dict):
            told = {"main": not again, "text": bundle.get("text/plain"), **bundle[DATA]}
            try:
                self._show(DATA, json.dumps(told, default=str, skipkeys=True).encode("utf-8"), alt, "data", key=key)
                return
            except (ValueError, RecursionError):  # it contains itself
                pass
        if PLOTLY in bundle:
            self._show_plotly(bundle[PLOTLY], key)
            return
        if bundle.get(PAGE):
            self._show("text/html", bundle[PAGE].encode("utf-8"), alt, "page", False, key, picture=as_bytes("image/png", bundle["image/png"]))
            return
        for mime in SHOWN_MIMES:
            if bundle.get(mime):
                data = as_bytes(mime, bundle[mime])
                shown = [self.pictures.get(key)] if key else self.pictures.values()
                if mime == "text/html":
                    self._show_html(data, alt, again, key)
                elif again or hash(data) not in shown:
                    self._show(mime, data, alt, stem, True, key, saved)
                return
        text = text_of(bundle)
        if text and key and self.kernel.in_run():  # printed text could not be replaced
            self._show("text/plain", text.encode("utf-8", "replace"), alt, "text", key=key)
        elif text:
            print(text)

    def _show_html(self, data, alt, again, key):
        """Shows short HTML as it is. A longer one, or a page that works by scripts, is a file; with again its text is printed."""
        markup = import_seldom("markup")
        page = markup.unframed(data.decode("utf-8", "replace"))
        file = markup.framed_file(page)
        file = file and os.path.relpath(os.path.realpath(file), os.path.realpath(self.settings.work_dir))
        if page_inside(file) and self._state(file):
            self._show("text/html", b"", alt, "page", False, key, saved=file)
            return
        scripts = "<script" in page
        short = len(page) <= SHORT_HTML and not scripts
        self._show("text/html", page.encode("utf-8"), alt, "page", short, key)
        if again and not short and not scripts:
            self.publish({"text/plain": markup.read(page)}, key=key and key + " as text")

    def _show_plotly(self, figure, key):
        """Keeps an interactive figure as a page; its source would tell a reader little."""
        try:
            charts = import_seldom("charts")
            title, page = charts.title_of(figure) or "an interactive figure", charts.figure_page(figure)
        except Exception as e:  # no figure, or another one of plotly's type
            print("note: an interactive figure is not shown: %s: %s" % (type(e).__name__, str(e)[:200]), file=sys.stderr)
            return
        self._show("text/html", page.encode("utf-8"), title, "figure", False, key)

    def show_file(self, path, alt):
        """Shows a page that code saved, if that is in the work directory."""
        file = os.path.relpath(os.path.realpath(path), os.path.realpath(self.settings.work_dir))
        if page_inside(file):
            self._show("text/html", b"", alt, "page", False, saved=file)

    def _show(self, mime, data, alt, stem, in_frame=True, key="", saved="", picture=b""):
        """Shows data, in a new file where they are a picture or not in the frame; picture is a page's."""
        in_run = self.kernel.in_run()
        if in_run:
            self.kernel.threads.begin_output()
        header = {"type": "display", "mime": mime, "size": len(data), "alt": alt, "saved": saved}
        if page_inside(saved):
            self._whole_file(saved)
        own = in_run and (type_of_picture(saved) or page_inside(saved)) and self._state(saved)
        if own:  # there is a file of it already
            key = key or "saved figure %d" % next(self.redraws)
            self.claims.setdefault(saved, []).append((key, alt))
        if key and in_run:
            header.update(key=key, again=key in self.files)
            self._remove(key)
        if mime == "text/html" and not in_frame:
            data = self._whole("whole", data) or data
            header["size"] = len(data)
        most = self.settings.image_bytes if mime.startswith("image/") or mime == DATA else self.settings.output_bytes
        shown = data if in_frame and len(data) <= most else b""
        if mime.startswith("image/"):
            self.pictures[key or object()] = hash(data)
            if mime in RASTERS and (not shown or pixels_of(data) > MOST_PIXELS):
                header["mime"], shown = smaller_picture(mime, data, self.settings.image_bytes)
        if picture:
            header["mime"], shown = "image/png", picture
            if len(picture) > self.settings.image_bytes or pixels_of(picture) > MOST_PIXELS:
                header["mime"], shown = smaller_picture("image/png", picture, self.settings.image_bytes)
        if own:
            header.update(path=saved, size=own[1])
        elif mime.startswith("image/") or picture or not shown:
            path = self._save(data, stem, SHOWN_MIMES.get(mime, "txt"))
            if path:
                header["path"] = path
                self.whole[path] = self._state(path)
        if in_run:
            path = None if own else header.get("path")
            self.files[key or object()] = path and (stem, self.numbers[stem], path, self._state(path))
        self.kernel.send_display(header, shown)

    def _state(self, path):
        try:
            found = os.lstat(os.path.join(self.settings.work_dir, path))
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _remove(self, key):
        """Removes the file of a display taken back, unless code changed it."""
        self.pictures.pop(key, None)
        file = self.files.pop(key, None)
        if not file:
            return
        stem, number, path, state = file
        if state is not None and self._state(path) == state:
            try:
                os.unlink(os.path.join(self.settings.work_dir, path))
            except OSError:
                return
            self.numbers[stem] = min(self.numbers[stem], number - 1)

    # -- pages

    def _whole(self, method, *args):
        """Makes a page whole, or returns nothing where that fails: it is as useful as it was."""
        try:
            if self.pages is None:
                self.pages = import_seldom("pages").Pages()
            return getattr(self.pages, method)(*args)
        except Exception:
            return None

    def _whole_file(self, path):
        self._whole("whole_file", os.path.join(self.settings.work_dir, path))
        self.whole[path] = self._state(path)

    def finish_pages(self):
        """Makes the run's new or changed pages whole."""
        left = itertools.repeat(None, MOST_ENTRIES)
        for folder, besides in (("output", ()), ("", ("output", "input"))):
            for path in self._changed_pages(folder, left, besides):
                self._whole_file(path)

    def _changed_pages(self, folder, left, besides):
        """The HTML files below a folder changed since the run began, among the first so many entries."""
        try:
            with os.scandir(os.path.join(self.settings.work_dir, folder)) as found:
                entries = list(itertools.islice(found, MOST_ENTRIES))
        except OSError:
            return
        for entry, _ in zip(entries, left):
            name = entry.name
            if name.startswith(".") or name in ("node_modules", "__pycache__", *besides):
                continue
            path = os.path.join(folder, name)
            try:
                if entry.is_dir(follow_symlinks=False):
                    yield from self._changed_pages(path, left, ())
                elif name.lower().endswith((".html", ".htm")) and entry.is_file(follow_symlinks=False):
                    if entry.stat(follow_symlinks=False).st_mtime_ns >= self.began and self.whole.get(path) != self._state(path):
                        yield path
            except OSError:
                continue

    def _save(self, data, stem, extension):
        """Writes a new file under output/ and tells its path, or nothing when that cannot be."""
        folder = os.path.join(self.settings.work_dir, "output")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.makedirs(folder, exist_ok=True)
            while True:
                number = self.numbers[stem] = self.numbers.get(stem, 0) + 1
                name = "%s-%d.%s" % (stem, number, extension)
                try:
                    fd = os.open(os.path.join(folder, name), flags, 0o644)
                    break
                except FileExistsError:
                    pass
            with open(fd, "wb") as file:
                file.write(data)
        except OSError as e:
            print("the %s was not saved: %s" % (stem, e.strerror), file=sys.stderr)
            return ""
        return "output/" + name

    # -- matplotlib

    def show_figure(self, figure, again=True):
        bundle = {"image/png": figure_png(figure), "text/plain": repr(figure)}
        self.publish(bundle, figure_title(figure), again, "figure", self.redrawn.get(figure, ""), self.saved_as(figure))

    def saved_as(self, figure):
        """The file with a figure as code saved it, relative to the work directory, or nothing."""
        saved, state = self.saved.get(figure, ("", None))
        return "" if figure.stale or self._state(saved) != state else saved

    def before_saving(self, figure, place):
        """Writes a file of their own for displays of one that code is about to replace."""
        if figure.stale:
            self.saved.pop(figure, None)
        for saved in self._places(figure, place):
            for key, alt in self.claims.pop(saved, ()):
                try:
                    with open(os.path.join(self.settings.work_dir, saved), "rb") as file:
                        data = file.read()
                except OSError:  # code removed it
                    continue
                self._show(type_of_picture(saved), data, alt, "figure", key=key)

    def note_saved(self, figure, place):
        """Notes that code saved a figure; of several files a picture."""
        for saved in self._places(figure, place):
            if type_of_picture(saved) or not type_of_picture(self.saved.get(figure, [""])[0]):
                self.saved[figure] = saved, self._state(saved)
            figure.stale = False  # until code changes it
            return

    def _places(self, figure, place):
        """The files that are there of those which saving a figure to place writes."""
        if not isinstance(place, (str, os.PathLike)):
            return
        place = os.fspath(place)
        for path in (place, "%s.%s" % (place, figure.canvas.get_default_filetype())):
            if os.path.isfile(path):
                yield os.path.relpath(os.path.realpath(path), os.path.realpath(self.settings.work_dir))

    def pause(self, seconds):
        """pyplot.pause(), which redraws figures in a loop: each gets one display of its last state."""
        began = time.monotonic()
        redraw = self.redraw_seconds < MOST_REDRAW_SECONDS or began >= self.next_redraw
        for manager in managers_of_figures():
            figure = manager.canvas.figure
            self.redrawn.setdefault(figure, "figure %d of pause()" % next(self.redraws))
            if redraw:
                self.show_figure(figure, again=False)
        ended = time.monotonic()
        took = ended - began
        self.redraw_seconds += took
        if redraw:
            self.next_redraw = ended + 1
        time.sleep(max(0, seconds - took))

    def show_open_figures(self, again=True):
        """Shows and closes the open figures of pyplot, in the order of their numbers."""
        managers, error = managers_of_figures(), None
        try:
            for manager in managers:
                figure = manager.canvas.figure
                if figure.axes or figure not in self.redrawn:  # else it was cleared for a state that did not come
                    try:
                        self.show_figure(figure, again)
                    except Exception as e:  # the others can still be drawn
                        error = error or e
        finally:
            if managers:
                sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()
        if error is not None:
            raise error


def page_inside(path):
    return path.lower().endswith((".html", ".htm")) and not path.startswith(("../", "/"))


def type_of_picture(path):
    """The MIME type of a file of the work directory that is a picture to show, by its name; nothing for others."""
    inside = not path.startswith(("../", "/"))
    return next((mime for mime in RASTERS if inside and path.lower().replace(".jpeg", ".jpg").endswith("." + SHOWN_MIMES[mime])), None)


def managers_of_figures():
    """The managers of pyplot's open figures, in the order of their numbers."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if not getattr(getattr(helpers, "Gcf", None), "figs", None):
        return []
    return helpers.Gcf.get_all_fig_managers()
