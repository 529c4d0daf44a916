"""Pictures: their size, figures drawn as PNG, and pictures that are too large made smaller."""

import struct

MOST_PIXELS = 4_000_000  # of a picture in a frame
MOST_DRAWN_PIXELS = 25_000_000  # of a figure in its file
RASTERS = ("image/png", "image/jpeg")


def pixels_of_png(data):
    """How many pixels a PNG's header claims; 0 for anything else."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        return 0
    width, height = struct.unpack(">II", data[16:24])
    return width * height


def upright(picture):
    """A picture as its camera was held, without other metadata such as the place."""
    from PIL import ImageOps

    try:
        picture = ImageOps.exif_transpose(picture) or picture
    except Exception:  # its EXIF is damaged
        pass
    picture.info = {name: value for name, value in picture.info.items() if name == "icc_profile"}
    return picture


def smaller_picture(mime, data, most_bytes):
    """A picture that fits into a frame, as (type, data); no data where that cannot be made."""
    import io
    import warnings

    try:
        from PIL import Image

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pictures that are very large
            picture = Image.open(io.BytesIO(data))
            if picture.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
                picture = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
            picture = picture.convert("RGBA" if "A" in picture.getbands() or "transparency" in picture.info else "RGB")
        scale = (MOST_PIXELS / (picture.width * picture.height)) ** 0.5
        while scale * min(picture.size) >= 1:
            if scale < 1:
                picture = picture.resize([max(1, int(scale * side)) for side in picture.size])
            picture = upright(picture)
            for kind, mode in (("png", picture.mode), ("jpeg", "RGB")):
                buffer = io.BytesIO()
                picture.convert(mode).save(buffer, kind)
                if buffer.tell() <= most_bytes:
                    return "image/" + kind, buffer.getvalue()
            scale = 0.5
    except Exception:  # no Pillow, or unreadable for it: the file holds it
        pass
    return mime, b""


def figure_png(figure):
    """A figure as PNG, as a notebook shows it, in its own colours."""
    import io

    buffer = io.BytesIO()
    canvas = figure.canvas
    if not hasattr(canvas, "print_png"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = FigureCanvasAgg(figure)
    width, height = figure.get_size_inches()
    stale = figure.stale
    canvas.print_figure(
        buffer,
        format="png",
        dpi=min(figure.dpi, (MOST_DRAWN_PIXELS / max(width * height, 1e-6)) ** 0.5),
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
        bbox_inches="tight",
    )
    figure.stale = stale  # drawing changes nothing of it
    return buffer.getvalue()


BROWSER = "chromium-headless-shell"


def page_png(page, width, height, scale):
    """The picture of an HTML text by the image's headless browser, or nothing without one."""
    import os
    import shutil
    import subprocess
    import tempfile

    if shutil.which(BROWSER) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path, picture = os.path.join(folder, "page.html"), os.path.join(folder, "page.png")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(page)
        sizes = ["--window-size=%d,%d" % (width, height), "--force-device-scale-factor=%g" % scale]
        command = [BROWSER, "--headless", "--no-sandbox", "--no-zygote", "--single-process", "--disable-gpu", "--enable-unsafe-swiftshader"]
        command += ["--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + folder, "--screenshot=" + picture, *sizes, "file://" + path]
        # A browser reserves more memory than it takes.
        subprocess.run(["sh", "-c", 'ulimit -d unlimited; exec "$@"', "sh", *command], stderr=subprocess.DEVNULL, check=False)
        if os.path.exists(picture):
            with open(picture, "rb") as file:
                return file.read()
    return None


def is_figure(value):
    return type(value).__name__ == "Figure" and type(value).__module__ == "matplotlib.figure"


def hook_savefig(module, before, after):
    """Calls before(figure, place) and after(figure, place) for each figure that code saves."""
    import functools

    original = module.Figure.savefig

    @functools.wraps(original)
    def savefig(figure, fname, *args, **kwargs):
        before(figure, fname)
        original(figure, fname, *args, **kwargs)
        after(figure, fname)

    module.Figure.savefig = savefig


def figure_title(figure):
    """The titles that a figure bears, for those who cannot see it."""
    titles = [getattr(figure, "_suptitle", None)] + [axes.title for axes in figure.axes]
    texts = [title.get_text().strip() for title in titles if title is not None]
    return "; ".join(text for text in texts if text)[:500]


# -- Pillow


def image_png(image):
    """A Pillow image as PNG, whatever its mode; nothing where it cannot be read."""
    import io

    for mode in (image.mode, "L" if image.mode == "F" else "RGB", "RGBA", "LA"):
        buffer = io.BytesIO()
        try:
            (image if mode == image.mode else image.convert(mode)).save(buffer, "png", compress_level=1)
            return buffer.getvalue()
        except (OSError, ValueError):  # PNG knows no such mode, or Pillow no such change
            pass
    return None


def hook_images(module):
    module.Image._repr_png_ = image_png


class Viewer:
    """A viewer for Image.show(), before those that look for a program and a screen."""

    def __init__(self, displays):
        self.displays = displays

    def show(self, image, title=None, **_):
        data = image_png(image)
        if data:
            self.displays.publish({"image/png": data, "text/plain": repr(image)}, title or "")
        return bool(data)
