"""Installs packages into the session's own folder, by the image's uv, or else by pip.

The server runs it by exec, in an interpreter of its own. `uv pip install` outside of virtual environments comes here
too, by kernel/bin/uv.
"""

import contextlib
import fcntl
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import sys

OWN = "/opt/code-sandbox-mcp/bin"
KEPT = "/mnt/data/.packages"
TURN = KEPT + "/turn"
ELSEWHERE = ("-p", "--python", "-t", "--target", "--prefix")  # uv's options that name another place
BROKEN = re.compile(r"(?:warning: )?(?:The package )?(`?[\w.-]+`? .*\brequires .*, but .*)")


def versions():
    """The session's packages."""
    return {d.metadata["Name"]: d.version for d in importlib.metadata.distributions(path=[site.getusersitepackages()])}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def package_of(requirement):
    """The name in a requirement, or in that of a file."""
    return normal(re.match(r"[\w.-]+", os.path.basename(requirement).split("-")[0] if requirement[0] == "/" else requirement)[0])


def is_there(name):
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


def find_uv():
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which("uv", path=os.pathsep.join(f for f in folders if f != OWN))


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)


class Turn:
    """The right to install, for one process of the session at a time."""

    def __enter__(self):
        os.makedirs(KEPT, exist_ok=True)
        self.file = open(TURN, "w")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another installation of this session goes on, and is waited for", flush=True)
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def is_going_on():
    """Whether the turn is taken."""
    try:
        with open(TURN) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nothing was installed yet
        pass
    return False


@contextlib.contextmanager
def stand_ins():
    """Puts stand-ins for the image's packages into the session's folder while uv works there, which looks into one folder alone.

    For each package it is a folder that describes it, with a link for METADATA: uv may put another version in its place.
    """
    folder = site.getusersitepackages()
    os.makedirs(folder, exist_ok=True)
    remove_stand_ins(folder)  # of a killed one
    own, before = os.listdir(folder), os.stat(folder)
    known = {name_of(entry) for entry in own}
    try:
        for path in (getattr(d, "_path", None) for d in importlib.metadata.distributions()):
            name = path and name_of(path.name)
            if name and name not in known:
                known.add(name)
                add_stand_in(path, os.path.join(folder, os.path.splitext(path.name)[0] + ".dist-info"))
        yield
    finally:
        remove_stand_ins(folder)
        if not own and not os.listdir(folder):
            os.rmdir(folder)
        elif sorted(os.listdir(folder)) == sorted(own):
            os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))  # for installed.py: nothing changed


def name_of(entry):
    """The name of the package that a folder or file describes; None: it does not describe any."""
    stem, kind = os.path.splitext(entry)
    if kind in (".dist-info", ".egg-info"):
        return normal(stem.split("-")[0])


def add_stand_in(path, folder):
    os.mkdir(folder)
    metadata = next((path / name for name in ("METADATA", "PKG-INFO") if (path / name).exists()), path)
    os.symlink(metadata, os.path.join(folder, "METADATA"))
    record = "".join("%s/%s,,\n" % (os.path.basename(folder), name) for name in ("METADATA", "WHEEL", "RECORD"))
    for name, text in ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), ("RECORD", record):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def remove_stand_ins(folder):
    for entry in os.listdir(folder):
        if os.path.islink(os.path.join(folder, entry, "METADATA")):
            remove(os.path.join(folder, entry))


def run(command, to):
    """Runs an installer, passes on its output, and returns its exit status."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, **output) as installer:
        try:
            for line in installer.stdout:
                to(line)
        except BaseException:  # the run is interrupted
            installer.kill()
            raise
    return installer.returncode


class InstallError(Exception):
    """What a failed installer said."""


def magic(command, line):
    """Runs an installer for %pip or %uv. One that installs and fails is an error with its reason."""
    said = []

    def to(text):
        print(text, end="", flush=True)
        said.append(text.strip())

    if run(["sh", "-c", "%s %s" % (command, line)], to) and "install" in line.split():
        denied = re.search(r"package_denied: .*?\)", "\n".join(said))
        failed = [text for text in said if text.startswith(("ERROR", "error"))] or said or ["it said nothing"]
        raise InstallError(denied[0] if denied else failed[-1])


def by_uv(uv, arguments, to=sys.stdout.write):
    """Runs `uv pip install`. It unpacks into a cache and links from there, so that of one that fails nothing is left."""
    cache = os.path.join(KEPT, "uv")
    command = [uv, "pip", "install", "--python", sys.executable, "--prefix", site.getuserbase(), "--break-system-packages"]
    command += ["--strict", "--cache-dir", cache, "--link-mode", "hardlink", *arguments]
    remove(cache)
    try:
        with stand_ins():
            return run(command, to)
    finally:
        remove(cache)


def by_pip(arguments, to):
    """Runs `pip install --user`, and removes the rest of a failed one."""
    folder = site.getusersitepackages()
    before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    command = [sys.executable, "-m", "pip", "install", "--user", "--no-input", "--no-color", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-warn-script-location", *arguments]
    code = 1
    try:
        code = run(command, to)
        return code
    finally:
        for entry in os.listdir(folder) if code and os.path.isdir(folder) else ():
            if entry not in before:
                path = os.path.join(folder, entry)
                remove(path) if os.path.isdir(path) else os.remove(path)


class Outcome:
    """The value of the run."""

    def __init__(self, fields):
        self.text = json.dumps(fields)

    def __repr__(self):
        return self.text


def install(packages, log):
    uv, broken, refused = find_uv(), [], []
    with Turn(), open(log, "w") as file:

        def to(line):
            print(line, end="", flush=True)
            file.write(line)
            broken.extend(BROKEN.findall(line))
            if "--packages-allow-sdist" in line:
                refused.append(line)

        before = versions()
        if uv:
            code = by_uv(uv, ["--", *packages], to)
            if code and refused:  # an older version may have a wheel
                code = by_uv(uv, ["--only-binary", ":all:", "--", *packages], to)
        elif importlib.util.find_spec("pip"):
            code = by_pip(["--", *packages], to)
        else:
            sys.exit("no_installer: the image has neither uv nor pip")
        if code:
            sys.exit(code)
        after = versions()
    changed = {name: version for name, version in after.items() if before.get(name) != version}
    done = {normal(name) for name in changed}
    rest = [(p, package_of(p)) for p in packages if package_of(p) not in done]
    already, needless = [p for p, name in rest if is_there(name)], [p for p, name in rest if not is_there(name)]
    return Outcome({"installed": changed, "already": already, "needless": needless, "broken": broken})


def main(arguments):
    """Is `uv pip install` with these arguments, for kernel/bin/uv."""
    uv = find_uv()
    if any(a.split("=")[0] in ELSEWHERE for a in arguments):
        os.execv(uv, [uv, "pip", "install", *arguments])
    with Turn():
        sys.exit(by_uv(uv, [a for a in arguments if a != "--system"]))
