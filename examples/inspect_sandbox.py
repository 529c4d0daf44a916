"""Inspect's tasks with `sandbox="code-sandbox"`, by E2B's API (docs/e2b.md): import this module beside the task."""
import posixpath
import shlex
import uuid

from e2b import AsyncSandbox, CommandExitException, FileNotFoundException, SandboxException, TimeoutException
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxEnvironmentLimits, SandboxUserUnsupportedError, sandboxenv


@sandboxenv(name="code-sandbox")
class CodeSandbox(SandboxEnvironment):
    def __init__(self, sandbox):
        super().__init__()
        self.sandbox = sandbox

    @classmethod
    async def sample_init(cls, task_name, config, metadata):
        return {"default": cls(await AsyncSandbox.create(timeout=24 * 3600))}  # it ends with its sample

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        await environments["default"].sandbox.kill()

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        if user not in (None, "user"):
            raise SandboxUserUnsupportedError(f"there is one user, not {user}")
        command = shlex.join(cmd)
        if input is not None or len(command) > 65536:  # more than that goes in by files
            script = f"/tmp/inspect-{uuid.uuid4().hex}"
            await self.sandbox.files.write(f"{script}.in", input or "")
            await self.sandbox.files.write(script, f"exec {command} <{script}.in")
            command = f"sh {script}; code=$?; rm {script} {script}.in; (exit $code)"
        try:  # with a shell around it, a signal is 128 and its number
            done = await self.sandbox.commands.run(f"{command}; exit $?", envs=env, cwd=posixpath.join("/home/user", cwd or ""), timeout=timeout or 0)
        except CommandExitException as failed:
            done = failed
        except TimeoutException as late:
            raise TimeoutError(str(late)) from None
        if done.exit_code == 126 and "denied" in done.stderr:
            raise PermissionError(f"{cmd[0]}: {done.stderr}")
        most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        return ExecResult(done.exit_code == 0, done.exit_code, done.stdout[-most:], done.stderr[-most:])

    async def write_file(self, file, contents):
        await self.on(file, self.sandbox.files.write(file, contents))

    async def read_file(self, file, text=True):
        if (await self.on(file, self.sandbox.files.get_info(file))).size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        data = bytes(await self.on(file, self.sandbox.files.read(file, format="bytes")))
        return data.decode() if text else data

    async def on(self, file, operation):
        try:
            return await operation
        except FileNotFoundException as error:
            raise FileNotFoundError(f"{file}: {error}") from None
        except SandboxException as error:
            kinds = {"is a directory": IsADirectoryError, "permission denied": PermissionError}
            raise next((kind for said, kind in kinds.items() if said in str(error).lower()), OSError)(f"{file}: {error}") from error
