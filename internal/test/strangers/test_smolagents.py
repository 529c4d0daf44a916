"""What a CodeAgent of smolagents does with E2B's executor."""
import pytest
from smolagents import AgentError, FinalAnswerTool, LogLevel
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import E2BExecutor


@pytest.fixture(scope="module")
def executor():
    made = E2BExecutor([], AgentLogger(LogLevel.OFF))
    made.send_tools({"final_answer": FinalAnswerTool()})
    yield made
    made.cleanup()


def test_state(executor):
    executor("x = 41")
    assert executor("print('said')\nx + 1").output == "42"


def test_variables(executor):
    executor.send_variables({"rows": [1, 2, 3]})
    assert executor("sum(rows)").output == "6"


def test_final_answer(executor):
    done = executor("final_answer({'primes': 1229})")
    assert done.is_final_answer and done.output == {"primes": 1229}


def test_error(executor):
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("1/0")


def test_figure(executor):
    assert executor("from PIL import Image\nImage.new('RGB', (40, 30))").output.size == (40, 30)
