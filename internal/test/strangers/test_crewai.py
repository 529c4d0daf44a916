"""The three tools of CrewAI for E2B."""
import pytest
from crewai_tools import E2BExecTool, E2BFileTool, E2BPythonTool


@pytest.fixture(scope="module")
def files():
    tool = E2BFileTool(persistent=True)
    tool.run(action="write", path="/home/user/a.txt", content="one\n")
    yield tool
    tool.close()


def test_exec():
    done = E2BExecTool().run(command="echo $WORD; echo err >&2", envs={"WORD": "hello"})
    assert done["exit_code"] == 0 and done["stdout"] == "hello\n" and done["stderr"] == "err\n"


def test_python():
    done = str(E2BPythonTool().run(code="import pandas as pd\nprint('said')\npd.DataFrame({'a': [41]}).a.sum() + 1"))
    assert "42" in done and "said" in done


@pytest.mark.parametrize(("action", "wanted"), [("read", "one"), ("info", "a.txt"), ("exists", "True"), ("list", "a.txt")])
def test_file(files, action, wanted):
    path = "/home/user" if action == "list" else "/home/user/a.txt"
    assert wanted in str(files.run(action=action, path=path))


def test_folder_and_delete(files):
    files.run(action="mkdir", path="/home/user/folder")
    files.run(action="delete", path="/home/user/folder")
    assert "folder" not in str(files.run(action="list", path="/home/user"))
