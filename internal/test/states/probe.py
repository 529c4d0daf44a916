# Prints a line with a hash of each variable of the namespace `state` that is no open or closed file, and of each file. It runs in a namespace of
# its own.
import hashlib
import io
import re
import subprocess
import types

STANDARD = {"In", "Out", "exit", "quit", "get_ipython", "open", "display", "sandbox"}


def text(value, above=()):
    """What a value consists of, the same in every process."""
    if id(value) in above or len(above) > 12:
        return "..."
    above = (*above, id(value))
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, dict):
        return name + str([(text(k, above), text(v, above)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return name + str([text(v, above) for v in value])
    if isinstance(value, (set, frozenset)):
        return name + str(sorted(text(v, above) for v in value))
    if isinstance(value, types.FunctionType):
        return name + value.__code__.co_code.hex() + text(value.__defaults__, above)
    if isinstance(value, type):
        own = {k: v for k, v in vars(value).items() if not k.startswith("__")} if value.__module__ == "__main__" else {}
        return value.__module__ + value.__qualname__ + text(own, above)
    if name.startswith("pandas.") and hasattr(value, "columns"):
        return name + text(list(value.columns), above) + str(list(value.dtypes)) + text(value.index, above) + str([text(value[c].to_numpy(), above) for c in value])
    if name.startswith("pandas.") and hasattr(value, "to_numpy"):
        return name + str(value.dtype) + str(getattr(value, "name", "")) + text(value.to_numpy(), above) + (text(value.index, above) if hasattr(value, "index") and hasattr(value.index, "to_numpy") else "")
    if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
        return name + str(value.dtype) + str(value.shape) + (text(value.tolist(), above) if value.dtype.hasobject else value.tobytes().hex())
    if hasattr(value, "bit_generator"):
        return name + text(value.bit_generator.state, above)
    if hasattr(value, "get_state") or hasattr(value, "getstate"):  # of other generators
        return name + text(getattr(value, "getstate", getattr(value, "get_state", None))(), above)
    if hasattr(value, "__dict__") and kind.__module__ != "datetime" and not name.startswith("pandas._libs"):
        return name + text(vars(value), above)
    return name + re.sub(" at 0x[0-9a-fA-F]+", "", repr(value))


def variables(state):
    for name, value in state.items():
        if not name.startswith("_") and name not in STANDARD and not isinstance(value, (types.ModuleType, io.IOBase)):
            yield f"{name}={hashlib.sha256(text(value).encode()).hexdigest()[:8]}"


print("STATE", *variables(globals()["state"]), subprocess.run(["bash", "/mnt/data/input/files.sh"], capture_output=True, text=True, check=True).stdout)
