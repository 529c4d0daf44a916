"""The settings that the server sends first: docs/kernel-protocol.md, `init`."""

from hostile import clean_int
from imports import has_module
from links import BLOB_BYTES


class Settings:
    """What `init` asks for, with every value made safe to use."""

    def __init__(self, message):
        get = message.get
        self.work_dir = get("work_dir") if isinstance(get("work_dir"), str) and get("work_dir") else "/mnt/data"
        env = get("env") if isinstance(get("env"), dict) else {}
        self.env = {k: v for k, v in env.items() if isinstance(v, str) and k and "=" not in k and "\0" not in k + v}
        preload = get("preload") if isinstance(get("preload"), list) else []
        self.preload = [name for name in preload if isinstance(name, str)]
        self.warm = get("warm") is True
        self.idle_seconds = clean_int(get("idle_seconds"), 0, 0, 1 << 31)
        self.wait_on_eof = get("on_eof") == "wait"
        # Six bytes of JSON may stand for one of output, and a frame holds five such texts.
        self.output_bytes = clean_int(get("output_bytes"), 30_000, 256, 200_000)
        self.spool_bytes = clean_int(get("spool_bytes"), 64 << 20, 0, 1 << 40)
        self.image_bytes = clean_int(get("image_bytes"), 1 << 20, 0, BLOB_BYTES - (1 << 16))
        self.max_displays = clean_int(get("max_displays"), 20, 0, 1000)
        self.max_artifacts = clean_int(get("max_artifacts"), 100, 0, 1000)
        self.volume_bytes = clean_int(get("volume_bytes"), 0, 0, 1 << 62)
        self.volume_files = clean_int(get("volume_files"), 0, 0, 1 << 62)
        self.ipython = has_module("IPython")

    @property
    def has_volume_limit(self):
        return self.volume_bytes > 0 or self.volume_files > 0

    @property
    def preloads(self):
        """Whether there is anything that is worth a zygote."""
        return self.ipython or bool(self.preload)
