// Drives a server by E2B's SDK as its users do.
import assert from "node:assert/strict";
import { AuthenticationError, CommandExitError, NotFoundError, Sandbox } from "@e2b/code-interpreter";

const made = [];
const create = async (options) => {
  const sandbox = await Sandbox.create(options);
  made.push(sandbox);
  return sandbox;
};

const cases = {
  async "a sandbox's life"() {
    const sandbox = await create({ metadata: { of: "life" }, timeoutMs: 600_000, envs: { SET: "yes" } });
    const page = await Sandbox.list({ query: { metadata: { of: "life" } } }).nextItems();
    assert.deepEqual(page.map((found) => found.sandboxId), [sandbox.sandboxId]);
    const before = (await sandbox.getInfo()).endAt;
    await sandbox.setTimeout(1200_000);
    assert((await sandbox.getInfo()).endAt > before);
    const other = await Sandbox.connect(sandbox.sandboxId);
    assert.equal((await other.commands.run("echo $SET")).stdout, "yes\n");
    assert.equal(await sandbox.kill(), true);
    assert.equal(await other.isRunning(), false);
    await assert.rejects(Sandbox.connect(sandbox.sandboxId), NotFoundError);
  },
  async code() {
    const sandbox = await create();
    await sandbox.runCode("x = 6");
    const printed = [];
    const shown = await sandbox.runCode("print('out'); x * 7", { onStdout: (message) => printed.push(message.line) });
    assert.deepEqual([shown.text, printed.join("")], ["42", "out\n"]);
    const failed = await sandbox.runCode("1 / 0");
    assert.equal(failed.error.name, "ZeroDivisionError");
    const drawn = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])\nplt.ylabel('Weight (kg)')\nplt.show()");
    assert(drawn.results[0].png.startsWith("iVBOR"));
    const { type, y_unit: unit, elements } = drawn.results[0].chart;
    assert.deepEqual([type, unit, elements.map(({ label, value }) => [label, value])], ["bar", "kg", [["a", 1], ["b", 2]]]);
    assert.equal((await sandbox.runCode("const y: number = 20 + 1; y * 2", { language: "ts" })).text, "42");
    const context = await sandbox.createCodeContext();
    assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
  },
  async files() {
    const sandbox = await create();
    const events = [];
    const watch = await sandbox.files.watchDir(".", (event) => events.push(event));
    await sandbox.files.write("folder/é.txt", "hello");
    assert.equal(await sandbox.files.read("/home/user/folder/é.txt"), "hello");
    await sandbox.files.write([{ path: "a", data: "1" }, { path: "b", data: new Blob(["2"]) }]);
    assert.deepEqual((await sandbox.files.list(".")).map((entry) => entry.name).filter((name) => name.length < 2), ["a", "b"]);
    await sandbox.files.rename("a", "c");
    assert.equal(await sandbox.files.exists("a"), false);
    await sandbox.files.remove("c");
    await assert.rejects(sandbox.files.read("c"), NotFoundError);
    while (!events.some((event) => event.name === "c" && event.type === "remove")) await new Promise((done) => setTimeout(done, 50));
    await watch.stop();
  },
  async commands() {
    const sandbox = await create();
    await assert.rejects(sandbox.commands.run("echo why >&2; exit 7"), (error) => error instanceof CommandExitError && error.exitCode === 7 && error.stderr === "why\n");
    const running = await sandbox.commands.run("read -r line; echo got $line; sleep 600", { background: true, stdin: true });
    await sandbox.commands.sendStdin(running.pid, "it\n");
    while (running.stdout !== "got it\n") await new Promise((done) => setTimeout(done, 50));
    assert((await sandbox.commands.list()).some((found) => found.pid === running.pid));
    assert.equal(await running.kill(), true);
    let shown = "";
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => (shown += Buffer.from(data).toString()) });
    await sandbox.pty.resize(terminal.pid, { cols: 99, rows: 33 });
    await sandbox.pty.sendInput(terminal.pid, Buffer.from("stty size; exit 3\n"));
    await assert.rejects(terminal.wait(), (error) => error.exitCode === 3);
    assert(shown.includes("33 99"), shown);
  },
  async "a pause"() {
    const sandbox = await create();
    await sandbox.runCode("x = 42; open('kept', 'w').write('file')");
    await sandbox.betaPause();
    const woken = await sandbox.connect();
    assert.equal((await woken.runCode("x")).text, "42");
    assert.equal(await woken.files.read("kept"), "file");
  },
  async refusals() {
    await assert.rejects(Sandbox.create({ apiKey: "e2b_00" }), AuthenticationError);
    await assert.rejects(Sandbox.create("../../etc/passwd"), /template/);
    await assert.rejects(Sandbox.create("my-template"), /template/);
  },
};

for (const [name, run] of Object.entries(cases)) {
  try {
    await run();
  } catch (error) {
    console.error(`${name}: ${error.stack}`);
    process.exitCode = 1;
  }
}
await Promise.all(made.map((sandbox) => sandbox.kill()));
if (!process.exitCode) console.log("ok");
