"""Pictures: their size, figures drawn as PNG, and pictures that are too large made smaller.

As a program it makes a file smaller, for `read_artifact`: it is asked and answers as document.py, with the picture in base64 for a text.
"""

import struct

MOST_PIXELS = 4_000_000  # of a picture in a frame
MOST_DRAWN_PIXELS = 25_000_000  # of a figure in its file
MOST_DECODED_PIXELS = 100_000_000
MOST_SIDE = 1568  # pixels of a picture that models take as it is
MEMORY_BYTES, SECONDS = 800 << 20, 10  # of the program
RASTERS = ("image/png", "image/jpeg")


def pixels_of(data):
    """How many pixels a PNG's or JPEG's header claims, those that take more memory than 4 bytes each more often; 0 for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 24:
        width, height, depth = struct.unpack(">IIB", data[16:25])
        return width * height * max(1, depth // 8)
    at = 2 if data[:2] == b"\xff\xd8" else len(data)
    while len(data) > at + 9:
        kind, length, height, width = struct.unpack(">xBHxHH", data[at : at + 9])
        if kind in (0xC0, 0xC1, 0xC2):
            return width * height * (3 if kind == 0xC2 else 1)  # progressive
        at += 2 + length
    return 0


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

    try:
        return shrunk(io.BytesIO(data), most_bytes, lambda size: (MOST_PIXELS / (size[0] * size[1])) ** 0.5)
    except Exception:  # no Pillow, or unreadable for it: the file holds it
        return mime, b""


def shrunk(source, most_bytes, scale_of):
    """A picture at the scale that its size wants, and smaller until it has no more bytes, as (type, data)."""
    import io
    import warnings

    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pictures that are very large
        picture = Image.open(source)
        kinds = ("jpeg",) if picture.format == "JPEG" else ("png", "jpeg")
        picture.draft(None, [max(1, int(min(1, scale_of(picture.size)) * side)) for side in picture.size])  # a JPEG is decoded at a smaller scale
        if picture.width * picture.height > MOST_DECODED_PIXELS:
            raise MemoryError
        scale = scale_of(picture.size)
        if picture.mode == "F":  # measured values
            low, high = picture.getextrema()
            picture = picture.point(lambda value: value * (255 / ((high - low) or 1)) + -low * (255 / ((high - low) or 1))).convert("L")
        if picture.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
            picture = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
        picture = picture.convert("RGBA" if "A" in picture.getbands() or "transparency" in picture.info else "RGB")
    while scale * min(picture.size) >= 1:
        if scale < 1:
            picture = picture.resize([max(1, int(scale * side)) for side in picture.size], reducing_gap=2)
        picture = upright(picture)
        for kind in kinds:
            buffer = io.BytesIO()
            picture.convert("RGB" if kind == "jpeg" else picture.mode).save(buffer, kind)
            if buffer.tell() <= most_bytes:
                return "image/" + kind, buffer.getvalue()
        scale = 0.5
    raise MemoryError


def main():
    import base64
    import json
    import os
    import resource
    import sys

    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # out of memory, this process goes and not the kernel
    except OSError:
        pass
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    request = json.loads(sys.stdin.readline())
    try:
        from PIL import Image

        Image.MAX_IMAGE_PIXELS = None
        path = os.path.join(request["work_dir"], request["path"])
        _, data = shrunk(path, request["limit_bytes"] // 4 * 3, lambda size: MOST_SIDE / max(size))
        with Image.open(path) as picture:
            pages = getattr(picture, "n_frames", 1) if picture.format == "TIFF" else 1
        answer = {"text": base64.b64encode(data).decode(), "complete": True, "lines_left": pages - 1}
    except ImportError:
        answer = {"error": "missing", "detail": "Pillow"}
    except MemoryError:
        answer = {"error": "too_large"}
    except Exception as error:  # a picture that is not as it should be
        answer = {"error": "broken", "detail": ("%s: %s" % (type(error).__name__, error))[:500]}
    print(json.dumps(answer))


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


BROWSER = "/tmp/.code-sandbox-mcp/browser.sock"  # of the supervisor, where the image has one


def ask_browser(page, **wanted):
    """What the session's browser makes of an HTML text: a picture, with pdf=True a document, with script=… its value as JSON."""
    import json
    import os
    import socket
    import tempfile

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as browser:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(page)
        try:
            browser.connect(BROWSER)
        except OSError:
            raise RuntimeError("There is no browser in this image") from None
        browser.sendall(json.dumps({"file": path, **wanted}).encode())
        with browser.makefile("rb") as answers:
            answer = answers.read()
    if answer[:1] != b"\0":
        raise RuntimeError("The browser gives no picture: %s" % (answer[1:].decode() or "it is busy"))
    return json.loads(answer[1:]) if "script" in wanted else answer[1:]


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


if __name__ == "__main__":
    main()
