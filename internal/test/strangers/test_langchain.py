"""LangChain's standard tests for sandboxes of Deep Agents."""
import e2b
import pytest
from langchain_e2b import E2BSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestSandbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with e2b.Sandbox.create(timeout=3600) as sandbox:
            yield E2BSandbox(sandbox=sandbox)
