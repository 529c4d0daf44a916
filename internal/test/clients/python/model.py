"""A scripted model behind OpenAI's chat completions: it calls the sandbox's tools and notes what it is given."""
import http.server
import json
import re
import threading

FIGURE = "import matplotlib.pyplot as plt\nplt.plot([n * n % 97 for n in range(200)]); plt.title('squares'); plt.show()"
# What the model runs in order, and what it has to read before it goes on.
STEPS = {
    "begin": ("x = 41", r"(?s)."),
    "variable": ("x + 1", r"(?:\\n|\W)42(?!\w)"),
    "figure": (FIGURE, r"figure-\d+\.png"),
    "error": ("1/0", "ZeroDivisionError"),
    "long": ("import time\ntime.sleep(20)\n'slept ' + 'well'", "slept well"),
}
MOST = 2000  # characters of one answer: a figure in base64 has more
TRIES = 8


class Model:
    """One conversation: a step is done when its answer has come, or after a few calls in vain."""
    said = "done"  # the last words

    def __init__(self, steps):
        self.left = list(steps)
        self.results = {}
        self.session = None
        self.seen = 0
        self.read = ""
        self.calls = 0
        self.images = 0
        self.tools = []

    def answer(self, request):
        """The name and the arguments of the next call, or nothing at the end."""
        self.tools = [tool["function"]["name"] for tool in request.get("tools", [])] or self.tools
        if self.calls:
            self.take(request["messages"])
        if not self.left:
            return None
        self.calls += 1
        code, _ = STEPS[self.left[0]]
        if run := self.running():
            return self.tool("wait_for_run"), {"run_id": run}
        arguments = {"code": code}
        if self.session:
            arguments["session_id"] = self.session
        return self.tool("run_python_code"), arguments

    def take(self, messages):
        texts = []
        for message in messages[self.seen:]:
            if message["role"] in ("assistant", "system", "developer"):
                continue
            parts = message.get("content") or ""
            for part in [{"type": "text", "text": parts}] if isinstance(parts, str) else parts:
                if part["type"] == "text":
                    texts.append(part["text"])
                else:
                    self.images += 1
        self.seen = len(messages)
        self.note("\n".join(texts))

    def note(self, text):
        self.read = text
        if named := re.search(r'session_id \\*"(sbx-\w+)', text):
            self.session = named[1]
        step = self.left[0]
        reached = re.search(STEPS[step][1], text) and not self.running() and len(text) <= MOST
        if reached or self.calls >= TRIES and not self.running():
            self.results[step] = {"reached": bool(reached), "calls": self.calls, "characters": len(text), "images": self.images, "text": text[:300]}
            self.left.pop(0)
            self.read, self.calls, self.images = "", 0, 0

    def running(self):
        found = re.search(r"(?:still running|go on|goes on|under way)[^\n]*?(run-\w+)", self.read)
        return found and found[1]

    def tool(self, name):
        return next((tool for tool in self.tools if tool.endswith(name)), name)

    def finish(self):
        """How the conversation ends where a framework has a tool for that."""
        return ("final_answer", {"answer": self.said}) if "final_answer" in self.tools else None


class Programs(Model):
    """The same for DSPy, which writes tools and answers into one text."""

    def take(self, messages):
        observations = re.findall(r"(?s)\[\[ ## observation_\d+ ## \]\]\n(.*?)(?=\n\[\[ ##|\n\nRespond with|\Z)", messages[-1]["content"])
        self.note(observations[-1] if observations else "")


def fields(call, prompt):
    if "next_tool_name" not in prompt:
        return "[[ ## reasoning ## ]]\ndone\n\n[[ ## answer ## ]]\ndone\n\n[[ ## completed ## ]]"
    name, arguments = call or ("finish", {})
    return (f"[[ ## next_thought ## ]]\nnext\n\n[[ ## next_tool_name ## ]]\n{name}\n\n"
            f"[[ ## next_tool_args ## ]]\n{json.dumps(arguments)}\n\n[[ ## completed ## ]]")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/responses"):
            return self.whole(request)
        if not self.path.endswith("/chat/completions"):
            return self.reply(404, "application/json", json.dumps({"error": {"message": "neither chat completions nor responses: " + self.path}}))
        self.server.requests.append(request)
        message, reason = self.message(request)
        body = {"id": "c1", "created": 1, "model": request["model"], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        if not request.get("stream"):
            body |= {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
            return self.reply(200, "application/json", json.dumps(body))
        chunk = body | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": message, "finish_reason": reason}]}
        self.reply(200, "text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")

    def whole(self, request):
        """The same by OpenAI's newer API, whole answers alone."""
        asked = {"messages": [{"content": item} for item in request["input"]], "tools": [{"function": tool} for tool in request.get("tools", [])]}
        message, _ = self.message(asked)
        items = [{"type": "function_call", "status": "completed", "id": "f" + call["id"], "call_id": call["id"], **call["function"]} for call in message.get("tool_calls", [])]
        items = items or [{"type": "message", "status": "completed", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": message["content"], "annotations": []}]}]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        self.reply(200, "application/json", json.dumps({"id": f"r{len(request['input'])}", "object": "response", "created_at": 1, "status": "completed", "model": request["model"], "output": items, "usage": usage, "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}))

    def message(self, request):
        model, system = self.server.model, str(request["messages"][0]["content"])
        if "next_tool_name" in system or "[[ ##" in system:
            call = model.answer(request) if "next_tool_name" in system else None
            return {"role": "assistant", "content": fields(call, system)}, "stop"
        call = model.answer(request) or model.finish()
        if not call:
            return {"role": "assistant", "content": model.said}, "stop"
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        calls = [{"index": 0, "id": f"call_{len(request['messages'])}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"

    def reply(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def serve(model):
    """Serve model on a free port of this machine, and give the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.model, server.requests = model, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
