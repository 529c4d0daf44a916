"""Installs packages with pip into the session's own folder, for the server: in an interpreter of its own, by exec."""

import importlib.metadata
import json
import os
import site
import subprocess
import sys


def versions():
    """What the session has installed."""
    return {d.metadata["Name"]: d.version for d in importlib.metadata.distributions(path=[site.getusersitepackages()])}


def is_there(requirement):
    """Whether a requirement is met by what is installed, which pip would take longer to say."""
    try:
        from pip._vendor.packaging.requirements import Requirement

        r = Requirement(requirement)
        return not r.url and not r.extras and r.specifier.contains(importlib.metadata.version(r.name), prereleases=True)
    except Exception:  # pip says what is wrong with it
        return False


class Outcome:
    """The value of the run."""

    def __init__(self, fields):
        self.text = json.dumps(fields)

    def __repr__(self):
        return self.text


def install(packages, log):
    before = versions()
    missing = [p for p in packages if not is_there(p)]
    if missing:
        os.makedirs(os.path.dirname(log), exist_ok=True)
        command = [sys.executable, "-m", "pip", "install", "--user", "--no-input", "--no-color", "--progress-bar", "off"]
        command += ["--disable-pip-version-check", "--no-warn-script-location", "--", *missing]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        with open(log, "w") as file, subprocess.Popen(command, stdin=subprocess.DEVNULL, **output) as pip:
            for line in pip.stdout:
                print(line, end="", flush=True)
                file.write(line)
        if pip.returncode:
            sys.exit(pip.returncode)
    after = versions()
    changed = {name: version for name, version in after.items() if before.get(name) != version}
    return Outcome({"installed": changed, "already": [p for p in packages if p not in missing]})
