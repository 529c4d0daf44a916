# Runs before a cell in Python's kernel, with a request. Everything here is the session's own to change. The variables of the contexts that
# are not in use are variables too, by names that no code has: so they sleep and wake with the others.
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
    kept = names.setdefault("_contexts", {"now": "python", "dirs": {}})
    before, now, dirs = kept["now"], asked["context"], kept["dirs"]
    if before != now or asked["clear"]:
        try:
            here = os.getcwd()
        except OSError:  # it was removed
            here = asked["home"]
        known = now in dirs and not asked["clear"]
        try:
            os.chdir(dirs[now] if known else asked["dir"])
        except OSError:
            if not known:
                raise
            os.chdir(asked["home"])
        dirs[before] = here
        for name in [n for n in names if not n.startswith("_") and n not in shared]:
            names["_context %s %s" % (before, name)] = names.pop(name)
        own = "_context %s " % now
        for name in [n for n in names if n.startswith(own)]:
            value = names.pop(name)
            if not asked["clear"]:
                names[name[len(own):]] = value
        kept["now"] = now
    for name in [n for n in names if n.startswith("_context ") and n.split(" ")[1] not in asked["contexts"]]:
        del names[name]
