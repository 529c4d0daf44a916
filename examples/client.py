# The protocol itself, with nothing but Python's standard library: runs Python, saves a figure, goes on in JavaScript.
#
#   python3 client.py
import base64
import itertools
import json
import pathlib
import subprocess

server = subprocess.Popen(["code-sandbox-mcp", "--log-level", "warn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
ids = itertools.count(1)


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), file=server.stdin, flush=True)


def request(method, **params):
    number = next(ids)
    send({"id": number, "method": method, "params": params})
    for line in server.stdout:  # notifications may come before the answer
        message = json.loads(line)
        if message.get("id") == number:
            return message["result"]
    raise EOFError("the server has ended")


def run(tool, code):
    content = request("tools/call", name=tool, arguments={"code": code})["content"]
    print(content[0]["text"])
    return content


request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "my-client", "version": "1"})
send({"method": "notifications/initialized"})

run("run_python_code", "squares = [n * n for n in range(10)]; sum(squares)")

# The variable is still there. A figure comes back as an image, beside the text.
content = run("run_python_code", """
import json, matplotlib.pyplot as plt
json.dump(squares, open("squares.json", "w"))
plt.plot(squares, "o-"); plt.title("squares"); plt.show()""")
image = next(part for part in content if part["type"] == "image")
pathlib.Path("squares.png").write_bytes(base64.b64decode(image["data"]))

run("run_js_code", 'const list: number[] = require("./squares.json"); Math.max(...list)')

server.stdin.close()  # the server removes the session and ends
server.wait()
