"""The values that are passed through are masked in what an answer says.

Tried: each value printed, split over writes, in base64 and URL-encoded, on stderr, as a result and in a traceback.
"""
import base64
import sys
import urllib.parse

for name in FACTS["given"]:
    value = os.environ[name]
    print(value, repr(value), json.dumps(value), urllib.parse.quote(value, ""))
    for shift in ("", "x", "xy"):
        print(base64.b64encode((shift + value + "tail").encode()).decode())
    for half in (value[: len(value) // 2], value[len(value) // 2 :]):
        sys.stdout.write(half)
        sys.stdout.flush()
    print(value, file=sys.stderr)
raise ValueError(" ".join(os.environ[name] for name in FACTS["given"]))
