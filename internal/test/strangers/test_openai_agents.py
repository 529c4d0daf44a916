"""OpenAI Agents SDK: a session with its default manifest, as its client for E2B opens it, step by step."""
import io
import pathlib

import pytest
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions


@pytest.fixture(scope="module")
async def session():
    client = E2BSandboxClient()
    made = await client.create(options=E2BSandboxClientOptions(sandbox_type="e2b"))
    await made.start()
    yield made
    await client.delete(made)


async def test_exec(session):
    done = await session.exec("pwd; python3 -c 'print(6 * 7)'")
    assert done.stdout.decode() == "/workspace\n42\n" and done.exit_code == 0


async def test_files(session):
    await session.mkdir(pathlib.Path("data"), parents=True)
    await session.write(pathlib.Path("data/a.csv"), io.BytesIO(b"a,b\n1,2\n"))
    assert (await session.read(pathlib.Path("data/a.csv"))).read() == b"a,b\n1,2\n"
    assert "a.csv" in (await session.exec("ls data")).stdout.decode()
    assert any(entry.path.endswith("a.csv") for entry in await session.ls("data"))
    await session.rm(pathlib.Path("data"), recursive=True)


async def test_apply_patch(session):
    await session.apply_patch([{"type": "create_file", "path": "note.txt", "diff": "+one"}])
    assert (await session.read(pathlib.Path("note.txt"))).read().strip() == b"one"


async def test_terminal(session):
    update = await session.pty_exec_start("read line; echo got $line", tty=True, yield_time_s=1)
    update = await session.pty_write_stdin(session_id=update.process_id, chars="word\n", yield_time_s=5)
    assert b"got word" in update.output
    await session.pty_terminate_all()


async def test_persist_and_hydrate(session):
    await session.write(pathlib.Path("kept.txt"), io.BytesIO(b"kept"))
    archive = await session.persist_workspace()
    await session.rm(pathlib.Path("kept.txt"))
    await session.hydrate_workspace(archive)
    assert (await session.read(pathlib.Path("kept.txt"))).read() == b"kept"
