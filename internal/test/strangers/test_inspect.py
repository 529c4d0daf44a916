"""Inspect's self-check of sandboxes, with the one of examples/."""
import pathlib
import sys

import pytest
from inspect_ai.util._sandbox import self_check

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "examples"))
from inspect_sandbox import CodeSandbox

globals().update({name: check for name, check in vars(self_check).items() if name.startswith("test_")})


@pytest.fixture(scope="module")
async def environments():
    made = await CodeSandbox.sample_init("check", None, {})
    yield made
    await CodeSandbox.sample_cleanup("check", None, made, False)


@pytest.fixture
def sandbox_env(environments):
    return environments["default"]
