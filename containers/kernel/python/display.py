"""What code shows: pictures and documents, in frames and as files below output/."""

import os
import sys

from imports import has_module
from mimes import PLOTLY, SHOWN_MIMES, as_bytes, text_of
from pictures import MOST_PIXELS, RASTERS, figure_png, figure_title, pixels_of_png, smaller_picture


def same_renderer(module):
    """Makes each of plotly's renderers return the figure: theirs need a notebook, a browser or a program that draws."""
    for name in list(module.renderers):
        if name != "json":
            module.renderers[name] = module.renderers["plotly_mimetype"]


class Displays:
    """Shows images and documents: a file in full, and a frame where it is small enough."""

    def __init__(self, settings, tell):
        self.settings = settings
        self.tell = tell
        self.numbers = {}
        self.pictures_shown = set()  # hashes
        self.capturing = lambda: None  # gives the publisher of code that captures what it shows

    def begin_run(self):
        self.pictures_shown.clear()

    def publish(self, bundle, alt="", again=True, stem="image"):
        """Shows a MIME bundle: its best picture, or else its text on stdout.

        With again false not a picture that this run has shown already. Code that captures what it shows
        has it instead.
        """
        capturing = self.capturing()
        if capturing is not None:
            capturing.publish(bundle, {"alt": alt})
            return
        if PLOTLY in bundle:
            self._show_plotly(bundle[PLOTLY])
            return
        for mime in SHOWN_MIMES:
            if bundle.get(mime):
                data = as_bytes(mime, bundle[mime])
                if again or hash(data) not in self.pictures_shown:
                    page = mime == "text/html"
                    # A page that works by scripts has nothing to read.
                    self._show(mime, data, alt, "page" if page else stem, in_frame=not page or b"<script" not in data)
                return
        text = text_of(bundle)
        if text:
            print(text)

    def _show_plotly(self, figure):
        """Keeps an interactive figure as a page; what it is made of would tell a reader little."""
        from plotly.io import to_html, to_image

        title = str(figure.get("layout", {}).get("title", {}).get("text") or "an interactive figure")[:500]
        page = to_html(figure, include_plotlyjs="cdn", validate=False)
        self._show("text/html", page.encode("utf-8"), title, "figure", in_frame=False)
        if has_module("kaleido"):
            try:
                self._show("image/png", to_image(figure, format="png", validate=False), title, "figure")
            except Exception as e:  # it may want a browser that is not there
                print("the figure is a page only: %s" % str(e)[:200], file=sys.stderr)

    def _show(self, mime, data, alt, stem, in_frame=True):
        header = {"type": "display", "mime": mime, "size": len(data), "alt": alt}
        most = self.settings.image_bytes if mime.startswith("image/") else self.settings.output_bytes
        shown = data if in_frame and len(data) <= most else b""
        if mime.startswith("image/"):
            self.pictures_shown.add(hash(data))
            if mime in RASTERS and (not shown or pixels_of_png(data) > MOST_PIXELS):
                header["mime"], shown = smaller_picture(mime, data, self.settings.image_bytes)
        if mime.startswith("image/") or not shown:
            path = self._save(data, stem, SHOWN_MIMES[mime])
            if path:
                header["path"] = path
        self.tell(header, shown)

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
                    continue
            with open(fd, "wb") as file:
                file.write(data)
        except OSError as e:
            print("the %s was not saved: %s" % (stem, e.strerror), file=sys.stderr)
            return ""
        return "output/" + name

    # -- matplotlib

    def show_figure(self, figure, again=True):
        bundle = {"image/png": figure_png(figure), "text/plain": repr(figure)}
        self.publish(bundle, figure_title(figure), again, "figure")

    def show_open_figures(self, again=True):
        """Shows and closes what pyplot holds open, in the order of its numbers."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if not getattr(getattr(helpers, "Gcf", None), "figs", None):
            return
        managers = helpers.Gcf.get_all_fig_managers()
        try:
            for manager in managers:
                self.show_figure(manager.canvas.figure, again)
        finally:
            helpers.Gcf.destroy_all()
