"""Drives a server by E2B's SDK as its users do."""

import asyncio
import json

from e2b_code_interpreter import AsyncSandbox, AuthenticationException, CommandExitException, NotFoundException, Sandbox


def code(sandbox):
    sandbox.run_code("import pandas as pd\nframe = pd.DataFrame({'a': [1, 2]})")
    printed = []
    shown = sandbox.run_code("print('out'); frame", on_stdout=lambda message: printed.append(message.line))
    assert printed == ["out\n"] and "a" in shown.text, (printed, shown)
    assert json.loads(shown.to_json()), shown
    drawn = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert drawn.results[0].png.startswith("iVBOR") and json.loads(drawn.to_json()), drawn
    chart = drawn.results[0].chart
    assert chart.type == "line" and chart.elements[0].points == [(0, 1), (1, 2)] and chart.x_scale == "linear", chart
    failed = sandbox.run_code("int('x')")
    assert failed.error.name == "ValueError" and "ValueError" in failed.error.traceback, failed


def commands(sandbox):
    try:
        sandbox.commands.run("exit 7")
        raise AssertionError("it ended well")
    except CommandExitException as error:
        assert error.exit_code == 7, error
    running = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(running.pid, "typed\n")
    for stdout, _, _ in running:
        assert stdout == "typed\n", stdout
        break
    assert sandbox.commands.kill(running.pid)
    assert not sandbox.commands.kill(1)


def files(sandbox):
    watcher = sandbox.files.watch_dir(".")
    sandbox.files.write("folder/data.bin", bytes(range(256)))
    assert bytes(sandbox.files.read("folder/data.bin", format="bytes")) == bytes(range(256))
    assert [entry.name for entry in sandbox.files.list("folder")] == ["data.bin"]
    while not any(event.name == "folder" for event in watcher.get_new_events()):
        pass
    watcher.stop()
    try:
        sandbox.files.read("../../../etc/none")
        raise AssertionError("it is there")
    except NotFoundException:
        pass


async def beside():
    """Sandboxes side by side have variables of their own."""
    async def one(n):
        sandbox = await AsyncSandbox.create(metadata={"n": str(n)})
        await sandbox.run_code(f"n = {n}")
        shown = await sandbox.run_code("n")
        await sandbox.kill()
        return shown.text

    assert await asyncio.gather(*map(one, range(3))) == ["0", "1", "2"]


with Sandbox.create() as made:
    code(made)
    commands(made)
    files(made)
asyncio.run(beside())
try:
    Sandbox.create(api_key="e2b_00")
    raise AssertionError("it lets in anybody")
except AuthenticationException:
    pass
print("ok")
