"""The tools of other servers, as functions: what is sent, and what becomes of results."""

import base64
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import os
import pathlib
import pickle
import socketserver
import sys
import tempfile
import threading
import types
import unittest
import uuid
from http.server import BaseHTTPRequestHandler
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib", "python"))
import sandbox  # noqa: E402
import sandbox_tools  # noqa: E402
from sandbox import ToolError, tools  # noqa: E402

SERVERS = [{"name": "hub", "attribute": "hub"}, {"name": "my-server", "attribute": "my_server"}, {"name": "9x"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "page": {"type": "integer", "default": 1},
        "repo": {"type": "string", "description": "Which\none."},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"type": ["string", "null"]}},
        "from": {"anyOf": [{"type": "number"}, {"type": "object"}]},
    },
    "required": ["repo"],
}
LISTED = [
    {"name": "list_issues", "attribute": "list_issues", "description": "Lists issues.\nAll of them.", "input": SCHEMA, "output": {}, "allowed": True},
    {"name": "do-it", "attribute": "do_it", "allowed": False},
    {"name": "odd", "attribute": "odd", "input": {"properties": [], "required": 7}, "allowed": True},
    {"name": "__class__", "allowed": True},
]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.reply({"/tools/servers": {"servers": SERVERS}}.get(self.path, {"tools": LISTED}))

    def do_POST(self):
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.reply(self.server.answer)

    def reply(self, answer):
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class TestTools(unittest.TestCase):
    def setUp(self):
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.asked, self.server.answer = [], None
        serving = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        serving.start()
        folder = tempfile.TemporaryDirectory()
        for patch in (mock.patch.object(sandbox_tools, "_PORT", self.server.server_address[1]), mock.patch.object(sandbox_tools, "_FOLDER", folder.name + "/tools")):
            patch.start()
            self.addCleanup(patch.stop)
        for cleanup in (serving.join, self.server.server_close, self.server.shutdown, folder.cleanup, sandbox_tools._lists.forget):
            self.addCleanup(cleanup)

    def result(self, **result):
        structured = result.pop("structured", False)
        self.server.answer = {"structured": structured, "result": result}
        return tools.hub.list_issues(repo="x")

    def failure(self, action):
        with self.assertRaises(Exception) as caught:
            action()
        return caught.exception

    def test_what_is_sent(self):
        self.server.answer = {"result": {"content": []}}
        for call in (
            lambda: tools.hub.list_issues("x", labels=("a", None)),
            lambda: tools.hub.list_issues({"repo": "x", "labels": ["a", None]}),
            lambda: tools["hub"]["list_issues"](repo="x", labels=["a", None]),
            lambda: tools.hub["list_issues"](**{"repo": "x", "labels": ["a", None]}),
        ):
            self.assertIsNone(call())
            self.assertEqual(self.server.asked[-1], {"server": "hub", "tool": "list_issues", "arguments": {"repo": "x", "labels": ["a", None]}})
        tools.my_server.do_it()
        self.assertEqual(self.server.asked[-1], {"server": "my-server", "tool": "do-it", "arguments": {}})
        tools["my-server"]["__class__"](n=2**60)
        self.assertEqual(self.server.asked[-1]["arguments"], {"n": 2**60})
        self.assertEqual(sum(a == "/tools/servers" for a in self.server.asked), 1, "the list is asked for once")
        for wrong in (lambda: tools.hub.list_issues("x", repo="y"), lambda: tools.hub.list_issues(*range(9))):
            self.assertIsInstance(self.failure(wrong), TypeError)

    def test_values_with_an_obvious_form(self):
        color = enum.Enum("Color", {"RED": "red"})
        point = dataclasses.make_dataclass("Point", ["x", "y"])
        array = type("ndarray", (), {"tolist": lambda self: [1, 2], "item": None})()
        self.server.answer = {"result": {"content": []}}
        for value, want in (
            (({1}, range(2), collections.deque("a"), {"b": 2}.values()), [[1], [0, 1], ["a"], [2]]),
            ((decimal.Decimal("1.50"), decimal.Decimal("1E+2"), decimal.Decimal("0.1234567890123456789")), [1.5, 100, "0.1234567890123456789"]),
            ((datetime.date(2026, 1, 31), pathlib.Path("a/b"), uuid.UUID(int=1), color.RED), ["2026-01-31", "a/b", "00000000-0000-0000-0000-000000000001", "red"]),
            ((point(1, color.RED), types.MappingProxyType({"a": array})), [{"x": 1, "y": "red"}, {"a": [1, 2]}]),
        ):
            tools.hub.list_issues(repo=value)
            self.assertEqual(self.server.asked[-1]["arguments"]["repo"], want)

    def test_an_argument_without_one_is_named(self):
        circle = []
        circle.append(circle)
        for value, said in (
            (b"x", "base64"),
            ([bytearray(1)], "base64"),
            (object(), "no form for builtins.object"),
            (float("nan"), "float values"),
            ({(1, 2): 3}, "tuple"),
            (circle, "Circular"),
            (print, "no form"),
            (iter([1]), "no form"),
        ):
            error = self.failure(lambda: tools.hub.list_issues(repo=value))
            self.assertEqual((type(error), error.code, error.tool), (ToolError, "invalid_argument", "list_issues"))
            self.assertIn("argument 'repo'", str(error))
            self.assertIn(said, str(error))

    def test_names(self):
        self.assertEqual(dir(tools), ["describe", "hub", "my_server", "search"])
        self.assertEqual(dir(tools.hub), ["do_it", "list_issues", "odd"])
        self.assertEqual((list(tools), list(tools.hub)[-1]), (["hub", "my-server", "9x"], "__class__"))
        self.assertIs(type(tools["9x"]), type(tools.hub))
        self.assertIn("there are list_issues", str(self.failure(lambda: tools.hub.list_isues)))
        self.assertEqual([type(self.failure(lambda: tools.none)), type(self.failure(lambda: tools["none"]))], [AttributeError, KeyError])
        self.assertFalse(hasattr(tools, "_ipython_display_") or hasattr(tools.hub, "__array__"))

    def test_signatures(self):
        function = tools.hub.list_issues
        want = "(repo: str, page: int = 1, state: Literal['open', 'closed'] = None, labels: list[str | None] = None) -> dict"
        self.assertEqual(str(inspect.signature(function)), want)
        self.assertIn("    repo (str): Which one.", function.__doc__)
        self.assertIn("    from (float | dict, optional)", function.__doc__)
        self.assertEqual(str(inspect.signature(tools.hub.odd)), "() -> object")
        shown = repr(tools.describe("hub"))
        for words in ("tools.hub.list_issues(repo: str", "    Lists issues.\n", "tools.hub.do_it() -> object  # may not be called", "tools.hub['__class__']()"):
            self.assertIn(words, shown)
        self.assertNotIn("All of them", shown)
        self.assertIn("All of them", tools.describe("hub", "list_issues"))

    def test_results(self):
        text = {"type": "text", "text": '{"a": 9007199254740993}'}
        for result, want in (
            ({"content": [text]}, text["text"]),
            ({"content": [text], "structured": True}, {"a": 9007199254740993}),
            ({"content": [{"type": "text", "text": "no JSON"}], "structured": True}, "no JSON"),
            ({"content": [text], "structuredContent": {"b": [1]}}, {"b": [1]}),
            ({"content": [text], "structuredContent": []}, []),
            ({"content": [text, text]}, [text["text"]] * 2),
            ({"content": []}, None),
            ({"content": "odd"}, None),
            ({}, None),
            ({"content": [{"type": "resource_link", "name": "n", "uri": "u:1"}]}, "n u:1"),
            ({"content": [{"type": "resource", "resource": {"uri": "u", "text": "t"}}]}, "t"),
            ({"content": [{"type": "new", "x": 1}]}, '{"type": "new", "x": 1}'),
        ):
            self.assertEqual(self.result(**result), want)

    def test_files(self):
        data = base64.b64encode(b"PNG").decode()
        image = {"type": "image", "data": data, "mimeType": "image/png"}
        first, second, blob = self.result(content=[image, dict(image, mimeType="../../x"), {"type": "resource", "resource": {"blob": data}}])
        self.assertEqual([p.name for p in (first, second, blob)], ["list_issues-1.png", "list_issues-1.bin", "list_issues-2.bin"])
        self.assertEqual(first.read_bytes(), b"PNG")
        self.assertEqual(os.listdir(os.path.dirname(first)).__len__(), 3)

    def test_failures(self):
        error = self.failure(lambda: self.result(isError=True, content=[{"type": "text", "text": "no such repo"}]))
        self.assertEqual((type(error), error.code, error.server, error.tool), (ToolError, "tool_failed", "hub", "list_issues"))
        self.assertIn("no such repo", str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.code, str(again)), (error.code, str(error)))
        self.server.answer = {"error": {"code": "tool_refused", "message": "m", "hint": "h", "server": "hub", "tool": "do-it"}}
        self.assertEqual(str(self.failure(tools.hub.do_it)), "tool_refused: m\nHint: h")
        self.server.answer = b'{"result": {'
        self.assertIn("cut off", str(self.failure(tools.hub.do_it)))
        with mock.patch.object(sandbox_tools, "_PORT", 1):
            self.assertIn("cannot be reached", str(self.failure(tools.hub.do_it)))

    def test_a_server_without_any(self):
        with mock.patch.object(Handler, "do_GET", lambda h: h.reply(None)):
            self.assertIn("no tools of others", str(self.failure(lambda: dir(tools))))

    def test_they_outlive_their_kernel(self):
        self.assertIs(pickle.loads(pickle.dumps(tools)), tools)
        self.assertEqual(list(pickle.loads(pickle.dumps(tools.hub))), list(tools.hub))
        self.assertIs(copy.deepcopy(tools), tools)
        self.assertIs(sandbox.tools, tools)


if __name__ == "__main__":
    unittest.main()
