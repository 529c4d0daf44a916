"""Of the server's environment, only what is passed through reaches the code.

Tried: the environment of the code and of every process that is to be seen.
"""
import hashlib


def digest(value):
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


for name, value in FACTS["given"].items():
    assert digest(os.environ.get(name, "")) == value, f"{name} was to be passed through"
seen = [dict(os.environ)]
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    try:
        text = read(f"/proc/{pid}/environ")
    except OSError as err:
        refusals[errno.errorcode[err.errno]] += 1
        continue
    seen.append(dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry))
hidden = set(FACTS["withheld"].values())
for variables in seen:
    for name, value in variables.items():
        assert digest(value) not in hidden, f"{name} has a value of the server's environment"
notes.append(f"{len(FACTS['withheld'])} variables of the server are not there")
if FACTS["given"]:
    notes.append("passed through: " + ", ".join(sorted(FACTS["given"])))
