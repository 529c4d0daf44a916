# Runs before a cell in Python's kernel, with a request. Everything here is the session's own to change.
import json
import os
import sys

asked = json.loads(request)  # noqa: F821
for name in asked["taken"]:
    os.environ.pop(name, None)
os.environ.update(asked["env"])
if not asked["plain"]:
    names = sys.modules["__main__"].__dict__
    shared = {"In", "Out", "get_ipython", "exit", "quit", "open", "display"}
    kept = sys.__dict__.setdefault("_contexts", {"now": "python", "of": {}})
    own = {k: v for k, v in names.items() if not k.startswith("_") and k not in shared}
    if kept["now"] != asked["context"] or asked["clear"]:
        kept["of"][kept["now"]] = own, os.getcwd()
        for name in own:
            del names[name]
        if asked["clear"]:
            kept["of"].pop(asked["context"], None)
        variables, folder = kept["of"].pop(asked["context"], ({}, asked["dir"]))
        names.update(variables)
        os.chdir(folder)
        kept["now"] = asked["context"]
    kept["of"] = {k: v for k, v in kept["of"].items() if k in asked["contexts"]}
