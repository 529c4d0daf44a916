"""The values of the supervisor's `init`."""

import os

from imports import OWN, has_module

# Set where neither the image nor the server does.
# Polars keeps its options in variables: it shows 8 columns of a frame, and does not wrap a wide one.
DEFAULT_ENV = {
    "MPLBACKEND": "agg",
    "PLOTLY_RENDERER": "plotly_mimetype",
    "POLARS_FMT_MAX_COLS": "100",
    "POLARS_TABLE_WIDTH": "2000",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


class Settings:
    """The fields of `init` that a kernel needs."""

    def __init__(self, message):
        self.work_dir = message["work_dir"]
        self.preload = message.get("preload") or []
        self.output_bytes = message["output_bytes"]
        self.image_bytes = message["image_bytes"]
        self.memory_bytes = message.get("memory_bytes") or 0
        self.ipython = has_module("IPython")

    @property
    def preloads(self):
        """Whether there is anything that is worth importing ahead."""
        return self.ipython or bool(self.preload)

    def set_environment(self, message):
        """Takes the session's variables from `init`, or from `bind` where that came for no session yet."""
        env = message.get("env") or {}
        os.environ.update({k: v for k, v in env.items() if k and "=" not in k and "\0" not in k + v})
        for name, value in DEFAULT_ENV.items():
            os.environ.setdefault(name, value)
        if any(os.access(folder + "/chromium-headless-shell", os.X_OK) for folder in os.get_exec_path()):
            for name in ("CHROME_PATH", "BROWSER_PATH"):  # of nokap, which saves tables, and of kaleido
                os.environ.setdefault(name, os.path.join(os.path.dirname(OWN[:-1]), "bin", "code-sandbox-chrome"))
