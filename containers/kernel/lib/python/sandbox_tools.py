"""Tools of the MCP servers that the user has named, as functions: `from sandbox import tools`.

    tools.search("issue")                       # what there is
    tools.describe("github")                    # the functions of a server, with their arguments
    issues = tools.github.list_issues(repo="octo/demo")

The calls go to the server of this sandbox, which makes them. No key and no connection is in the container.
"""

import base64 as _base64
import inspect as _inspect
import itertools as _itertools
import json as _json
import os as _os
import re as _re
import socket as _socket
import time as _time

__all__ = ["tools", "ToolError"]

_PORT = int(_os.environ.get("CODE_SANDBOX_WAY_OUT", 9797))
_FOLDER = "/mnt/data/output/tools"
_AGE = 60.0  # seconds that what a server has is used without asking again


class ToolError(Exception):
    """A call that was refused or has failed. `code` is the kind of failure, `hint` what to do, `server` and `tool` what was called."""

    def __init__(self, code, message, hint="", server="", tool=""):
        super().__init__("%s: %s%s" % (code, message, "\nHint: " + hint if hint else ""))
        self.code, self.message, self.hint, self.server, self.tool = code, message, hint, server, tool

    def __reduce__(self):
        return ToolError, (self.code, self.message, self.hint, self.server, self.tool)


class _Text(str):
    """A text that a cell shows as it is, and a signature as an annotation."""

    def __repr__(self):
        return str(self)


class _Lists:
    """What the server has told lately, by its path."""

    def __init__(self):
        self._told = {}

    def get(self, path):
        at, answer = self._told.get(path, (None, None))
        if at is None or _time.monotonic() - at > _AGE:
            answer = _ask("GET", path)
            self._told[path] = (_time.monotonic(), answer)
        return answer

    def forget(self):
        self._told.clear()


_lists = _Lists()


class _Named:
    """What is reached by its name: as an attribute, or in brackets where a name is no identifier."""

    def __getattr__(self, name):
        if name.startswith("_"):  # the interpreter's own questions
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __dir__(self):
        return sorted([*self._OWN, *(one["attribute"] for one in self._all() if one.get("attribute"))])

    def __iter__(self):
        return iter([one["name"] for one in self._all()])


class _Tools(_Named):
    """The servers, as attributes; `tools["name"]` where a name is no identifier. search() finds tools, describe() shows them."""

    _OWN = ("search", "describe")

    def search(self, query=""):
        """The tools whose names or descriptions have words of the query, the best first: a dict each."""
        answer = _ask("GET", "search?q=" + _quoted(query))
        for problem in answer.get("problems") or ():
            print("note: %s: %s" % (problem["server"], problem["message"]))
        return [_found(hit) for hit in answer.get("tools") or ()]

    def describe(self, server=None, tool=None):
        """The functions of a server, or one of them whole, as text; without a server the names of all."""
        if server is None:
            return _Text("\n".join(sorted("tools" + _access(s) for s in _servers())))
        server = self[server]
        if tool is not None:
            return _Text(_signature_line(server[tool]) + "\n" + _inspect.cleandoc(server[tool].__doc__))
        return _Text(server._describe())

    def __getitem__(self, name):
        if isinstance(name, str):
            for server in _servers():
                if name in (server["name"], server.get("attribute")):
                    return _Server(server["name"])
        raise KeyError("%r is none of %s" % (name, ", ".join(self)))

    def _all(self):
        return _servers()

    def __repr__(self):
        return "<tools of other servers; see dir(tools), tools.search(), tools.describe()>"

    def __reduce__(self):
        return "tools"


class _Server(_Named):
    """The tools of one server, as attributes; `server["name"]` where a name is no identifier."""

    _OWN = ()

    def __init__(self, name):
        self._name = name

    def __getitem__(self, name):
        for tool in self._all():
            if name in (tool["name"], tool.get("attribute")):
                if "function" not in tool:
                    tool["function"] = _function(self._name, tool)
                return tool["function"]
        import difflib

        names = list(self)
        near = difflib.get_close_matches(str(name), names, 5) or names[:20]
        raise KeyError("%s has no tool %r; there are %s" % (self._name, name, ", ".join(near)))

    def __repr__(self):
        return "<tools of %s; see dir(), or tools.describe(%r)>" % (self._name, self._name)

    def __reduce__(self):
        return _Server, (self._name,)

    def _all(self):
        return _lists.get("list?server=" + _quoted(self._name))["tools"]

    def _describe(self):
        lines = []
        for tool in self._all():
            function = self[tool["name"]]
            about = (tool.get("description") or "").strip().split("\n")[0]
            lines.append(_signature_line(function) + ("" if tool["allowed"] else "  # may not be called"))
            if about:
                lines.append("    " + about)
        return "\n".join(lines)


def _servers():
    return _lists.get("servers")["servers"]


def _access(named):
    """How a server or a tool is reached from what has it."""
    return "." + named["attribute"] if named.get("attribute") else "[%r]" % named["name"]


def _found(hit):
    server = {"name": hit["server"], "attribute": hit.get("server_attribute")}
    call = "tools" + _access(server) + _access({"name": hit["tool"], "attribute": hit.get("attribute")})
    return {"call": call, "description": hit.get("description", ""), "allowed": hit["allowed"]}


def _signature_line(function):
    return "%s%s" % (function.__qualname__, _inspect.signature(function))


# Functions of schemas -------------------------------------------------------------------------------------------------

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict", "null": "None"}


def _type(schema, depth=0):
    """A JSON schema as Python writes types, in few words."""
    if not isinstance(schema, dict) or depth > 3:
        return "object"
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= 12 and all(isinstance(c, (str, int, bool, type(None))) for c in choices):
        return "Literal[%s]" % ", ".join(repr(c) for c in choices)
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list) and schema[word]:
            return " | ".join(dict.fromkeys(_type(s, depth + 1) for s in schema[word][:8]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(_type(dict(schema, type=k), depth + 1) for k in kind[:8])) or "object"
    if kind == "array" and isinstance(schema.get("items"), dict):
        return "list[%s]" % _type(schema["items"], depth + 1)
    return _TYPES.get(kind, "object") if isinstance(kind, str) else "object"


_NAME = _re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def _parameters(schema):
    """The names and schemas of a tool's arguments, those that it needs first."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    needed = [n for n in schema.get("required") or () if n in properties] if isinstance(schema.get("required"), list) else []
    return needed, {n: properties[n] for n in dict.fromkeys(_itertools.chain(needed, properties))}


def _function(server, tool):
    """A function that calls a tool."""
    import keyword

    schema = tool.get("input") or {}
    needed, properties = _parameters(schema)
    names = list(properties)

    def call(*args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], dict) and not (names and _type(properties[names[0]]) in ("dict", "object")):
            return _call(server, tool["name"], args[0])  # as JavaScript writes it
        if len(args) > len(names):
            raise TypeError("%s() takes %d arguments" % (call.__qualname__, len(names)))
        given = dict(zip(names, args))
        for name in given:
            if name in kwargs:
                raise TypeError("%s() got several values for %r" % (call.__qualname__, name))
        return _call(server, tool["name"], dict(given, **kwargs))

    attribute = {"name": server, "attribute": next((s.get("attribute") for s in _servers() if s["name"] == server), None)}
    call.__name__ = tool.get("attribute") or tool["name"]
    call.__qualname__ = "tools" + _access(attribute) + _access(tool)
    call.__module__ = "sandbox"
    parameters = []
    for name, about in properties.items():
        if _NAME.match(name) and not keyword.iskeyword(name):
            default = _inspect.Parameter.empty
            if name not in needed:
                default = about.get("default") if isinstance(about, dict) else None
            kind = _inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(_inspect.Parameter(name, kind, default=default, annotation=_Text(_type(about))))
    parameters.sort(key=lambda p: p.default is not _inspect.Parameter.empty)
    result = "dict" if tool.get("output") is not None else "object"
    call.__signature__ = _inspect.Signature(parameters, return_annotation=_Text(result))
    call.__doc__ = _document(tool, properties, needed)
    return call


def _document(tool, properties, needed):
    lines = [(tool.get("description") or "").strip() or tool["name"]]
    if not tool["allowed"]:
        lines += ["", "It may not be called: it does not say that it only reads, and the user has not allowed it."]
    if properties:
        lines += ["", "Arguments:"]
        for name, about in properties.items():
            words = about.get("description", "") if isinstance(about, dict) else ""
            about = "%s%s" % (_type(about), "" if name in needed else ", optional")
            lines.append("    %s (%s)%s" % (name, about, ": " + " ".join(words.split()) if isinstance(words, str) and words else ""))
    return "\n".join(lines)


# Calls ----------------------------------------------------------------------------------------------------------------


def _call(server, tool, arguments):
    import sandbox_json

    parts = []
    for name, value in arguments.items():
        try:
            parts.append("%s: %s" % (_json.dumps(str(name)), sandbox_json.dump(value)))
        except Exception as e:
            told = "The argument %r cannot be sent: %s" % (name, str(e)[:500] or type(e).__name__)
            raise ToolError("invalid_argument", told, "Hand over text, numbers, lists, dicts, or what has such a form, such as a DataFrame.", server, tool) from None
    body = '{"server": %s, "tool": %s, "arguments": {%s}}' % (_json.dumps(server), _json.dumps(tool), ", ".join(parts))
    try:
        answer = _ask("POST", "call", body)
    except ToolError as e:
        if e.code in ("not_found", "tool_refused"):
            _lists.forget()
        raise
    return _result(answer["result"], answer.get("structured"), server, tool)


def _result(result, structured, server, tool):
    contents = result.get("content")
    contents = [c for c in contents if isinstance(c, dict)] if isinstance(contents, list) else []
    if result.get("isError"):
        said = "\n".join(str(_content(c, tool)) for c in contents)
        raise ToolError("tool_failed", said or "the tool has failed", "", server, tool)
    if result.get("structuredContent") is not None:
        for content in contents:
            if content.get("type") in ("image", "audio"):
                print("note: saved %s" % _content(content, tool))
        return result["structuredContent"]
    values = [_content(c, tool) for c in contents]
    if len(values) != 1:
        return values or None
    if structured and isinstance(values[0], str):
        try:
            return _json.loads(values[0])
        except ValueError:
            pass
    return values[0]


def _content(content, tool):
    """One content: a text, or the path of the file that it was saved to."""
    kind = content.get("type")
    if kind == "text":
        return str(content.get("text", ""))
    if kind in ("image", "audio"):
        return _save(content.get("data"), content.get("mimeType"), tool)
    if kind == "resource_link":
        return " ".join(str(content[k]) for k in ("title", "name", "uri") if content.get(k))
    if kind == "resource" and isinstance(content.get("resource"), dict):
        resource = content["resource"]
        if isinstance(resource.get("text"), str):
            return resource["text"]
        return _save(resource.get("blob"), resource.get("mimeType"), tool)
    return _json.dumps(content, ensure_ascii=False)


def _save(data, mime, tool):
    import mimetypes
    import pathlib

    _os.makedirs(_FOLDER, exist_ok=True)
    stem = _re.sub(r"[^A-Za-z0-9_-]+", "_", tool)[:60] or "tool"
    ending = mimetypes.guess_extension(mime) if isinstance(mime, str) and _re.fullmatch(r"[\w.+-]+/[\w.+-]+", mime) else None
    content = _base64.b64decode(data or "")
    for number in _itertools.count(1):
        path = pathlib.Path(_FOLDER, "%s-%d%s" % (stem, number, ending or ".bin"))
        try:
            with open(path, "xb") as file:
                file.write(content)
            return path
        except FileExistsError:
            continue


def _quoted(text):
    from urllib.parse import quote

    return quote(str(text), safe="")


def _ask(method, path, body=""):
    """The answer to a request. http.client would take a third of a call's time."""
    body = body.encode()
    head = "%s /tools/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (method, path, len(body))
    parts = []
    try:
        with _socket.create_connection(("127.0.0.1", _PORT)) as server:
            server.sendall(head.encode() + body)
            while part := server.recv(1 << 20):
                parts.append(part)
    except OSError as e:
        raise ToolError("tool_failed", "The server cannot be reached: %s" % e, "Try again.") from None
    head, _, text = b"".join(parts).partition(b"\r\n\r\n")
    if head[9:12] == b"404":
        raise ToolError("not_found", "This server has no tools of others.", "Its user can add some, see docs/tools-from-code.md.")
    try:
        answer = _json.loads(text)
    except ValueError:
        raise ToolError("tool_failed", "The answer was cut off.", "Try again.") from None
    failed = answer.get("error")
    if failed:
        raise ToolError(failed["code"], failed["message"], failed["hint"], failed.get("server", ""), failed.get("tool", ""))
    return answer


tools = _Tools()
