"""The tools of Agno's E2BTools that work with E2B's SDK of today."""
import types

import pytest
from agno.tools.e2b import E2BTools


@pytest.fixture(scope="module")
def tools():
    made = E2BTools()
    yield made
    made.shutdown_sandbox()


def test_python(tools):
    tools.run_python_code("x = 41")
    assert "42" in tools.run_python_code("x + 1") and "ZeroDivisionError" in tools.run_python_code("1/0")


def test_figure(tools):
    tools.run_python_code("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]); plt.show()")
    assert tools.download_png_result(types.SimpleNamespace()).images


def test_files(tools, tmp_path):
    (tmp_path / "up.txt").write_text("up")
    tools.upload_file(str(tmp_path / "up.txt"))
    tools.write_file_content("more.txt", "more")
    assert tools.read_file_content("up.txt") == "up" and "more.txt" in tools.list_files("/home/user")


def test_commands(tools):
    assert "42" in tools.run_command("echo $((6 * 7))") and "42" in tools.stream_command("echo 42")
    assert "success" in tools.kill_background_command(tools.run_background_command("sleep 60"))


def test_timeout(tools):
    assert "error" not in tools.set_sandbox_timeout(600)
