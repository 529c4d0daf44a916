// The limit of the work directory (quota.cjs, tally.cjs): whatever fills it is stopped, and
// the variables stay where that can be.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs, { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { Client, PATIENT } from './harness.mjs';

const require = createRequire(import.meta.url);
const { hasRun } = require('../supervisor/activity.cjs');
const { processorTimes } = require('../supervisor/quota.cjs');
const { Tally } = require('../common/tally.cjs');

const MiB = 1 << 20;
const BYTES = 20 * MiB;
const FILES = 300;
// The limit stops the code, not the time, and the code is not killed.
const IN_TIME = { timeout_ms: 3 * PATIENT, grace_ms: PATIENT };

/** started makes a client with limits for one test. */
async function started(t, overrides = {}, user = undefined) {
  const client = await Client.start({ volume_bytes: BYTES, volume_files: FILES, ...overrides }, {}, user);
  t.after(async () => {
    client.child.kill('SIGTERM'); // which takes its kernels along
    await client.exited;
  });
  await client.run('const fs = require("fs"), { spawn } = require("child_process"), kept = "kept"; const wait = (ms) => new Promise((r) => setTimeout(r, ms)); 1');
  return client;
}

/** exceeded runs code that has to be stopped, and gives its done frame. */
async function exceeded(client, code, options) {
  const done = await client.run(code, options);
  assert.deepEqual([done.status, done.exit_code, done.error?.name, done.cause, done.result], ['failed', 1, 'QuotaExceeded', 'quota', null], done.error?.traceback);
  assert.match(done.error.message, /\d+|cannot be counted/);
  return done;
}

async function completed(client, code) {
  const done = await client.run(code);
  assert.deepEqual([done.status, done.error?.traceback], ['completed', undefined]);
  return done.result;
}

/** asleep waits until processes sleep: what follows a run may take a busy machine seconds. */
async function asleep(pids) {
  let before;
  let now = processorTimes(pids);
  do {
    before = now;
    await wait(500);
    now = processorTimes(pids);
  } while (hasRun(before, now));
}

const fill = {
  'one large file': 'const fd = fs.openSync("large", "w"); while (true) { fs.writeSync(fd, Buffer.alloc(1 << 16)); await wait(1) }',
  'a busy loop of synchronous writes': 'while (true) fs.appendFileSync("busy", Buffer.alloc(1 << 14))',
  'many small files': 'for (let i = 0; ; i++) { fs.writeFileSync(`small-${i}`, ""); await wait(1) }',
  'many folders': 'for (let i = 0; ; i++) { fs.mkdirSync(`folder-${i}`); await wait(1) }',
  'sparse files': 'for (let i = 0; i < 8; i++) { fs.writeFileSync(`sparse-${i}`, ""); fs.truncateSync(`sparse-${i}`, 3 << 20) } await wait(1e9)',
  'sparse files in no time': 'for (let i = 0; i < 8; i++) { fs.writeFileSync(`sparse-${i}`, ""); fs.truncateSync(`sparse-${i}`, 3 << 20) }',
  'hidden files': 'fs.mkdirSync(".cache", { recursive: true }); while (true) { fs.appendFileSync(".cache/hidden", Buffer.alloc(1 << 16)); await wait(1) }',
  'files under names that are no text': 'while (true) { fs.appendFileSync(Buffer.from([0xff, 0xfe]), Buffer.alloc(1 << 16)); await wait(1) }',
  'a file that has lost its name': 'const fd = fs.openSync("gone", "w"); fs.unlinkSync("gone"); while (true) { fs.writeSync(fd, Buffer.alloc(1 << 16)); await wait(1) }',
  'files that have lost their names in a program': 'require("child_process").execSync("exec 3>gone; rm gone; while :; do head -c 65536 /dev/zero >&3; done")',
  'files that never had a name': 'const fd = fs.openSync(".", 0o20200002); while (true) { fs.writeSync(fd, Buffer.alloc(1 << 16)); await wait(1) }',
  'a file without a name in no time': 'const fd = fs.openSync("gone", "w"); fs.unlinkSync("gone"); fs.writeSync(fd, Buffer.alloc(40 << 20)); 1',
  'a program': 'require("child_process").execSync("while :; do head -c 65536 /dev/zero >> program; done")',
};

describe('a run that goes over the limit is stopped, and its variables stay', () => {
  for (const [name, code] of Object.entries(fill)) {
    test(name, async (t) => {
      const client = await started(t);
      const done = await exceeded(client, code, IN_TIME);
      assert.equal(done.kernel, 'alive');
      assert.equal(await completed(client, 'kept'), "'kept'");
      // It may delete, however long that takes, and then everything is as before.
      const remove = 'if (typeof fd !== "undefined") fs.closeSync(fd); for (const name of fs.readdirSync(".", { encoding: "buffer" })) fs.rmSync(name, { recursive: true })';
      assert.equal(await completed(client, `await wait(300); ${remove}; await wait(300); fs.mkdirSync("output"); "clean"`), "'clean'");
      assert.equal(await completed(client, 'fs.writeFileSync("fits", Buffer.alloc(10 << 20)); await wait(300); fs.statSync("fits").size'), String(10 * MiB));
    });
  }
});

test('hard links are counted once', async (t) => {
  const client = await started(t);
  assert.equal(await completed(client, 'fs.writeFileSync("one", Buffer.alloc(8 << 20)); for (let i = 0; i < 10; i++) fs.linkSync("one", `link-${i}`); await wait(400); "ok"'), "'ok'");
});

describe('what is only mapped', () => {
  const hold = (mebibytes) => `
import mmap, os, time
file = open("mapped", "w+b"); file.truncate(${mebibytes} << 20)
kept = mmap.mmap(file.fileno(), 0); again = mmap.mmap(file.fileno(), 1 << 20)
file.close(); os.unlink("mapped")
for fd in map(int, os.listdir("/proc/self/fd")): # a mapping keeps one of its own
    if os.path.islink(f"/proc/self/fd/{fd}") and "mapped" in os.readlink(f"/proc/self/fd/{fd}"): os.close(fd)
print("held", flush=True); time.sleep(1000)`;

  test('counts', async (t) => {
    const client = await started(t);
    await exceeded(client, `require("child_process").execFileSync("python3", ["-c", ${JSON.stringify(hold(30))}])`, IN_TIME);
    assert.equal(await completed(client, 'await wait(300); kept'), "'kept'");
  });

  const [major, minor] = release().split('.').map(Number);
  const isTold = major > 5 || (major === 5 && minor >= 6);

  test('counts when it sends them on', { skip: !isTold && 'the kernel does not tell of descriptors on their way' }, async (t) => {
    const client = await started(t);
    const send = `
import os, socket, time
ends = socket.socketpair()
f = open("sent", "wb")
os.unlink("sent"); os.posix_fallocate(f.fileno(), 0, 60 << 20)
socket.send_fds(ends[0], [b"x"], [f.fileno()])
f.close(); time.sleep(1000)`;
    await exceeded(client, `require("child_process").execFileSync("python3", ["-c", ${JSON.stringify(send)}])`, IN_TIME);
    assert.equal(await completed(client, 'await wait(300); kept'), "'kept'");
  });

  test('counts when its number changes all the time', async (t) => {
    const client = await started(t);
    const renumber = `
import fcntl, os
fd, n = os.open("renumbered", os.O_CREAT | os.O_RDWR), 0
os.unlink("renumbered"); os.posix_fallocate(fd, 0, 60 << 20)
while True:
    n = (n + 1) % 100
    fd, before = fcntl.fcntl(fd, fcntl.F_DUPFD, 20 + n), fd
    os.close(before)`;
    await exceeded(client, `require("child_process").execFileSync("python3", ["-c", ${JSON.stringify(renumber)}])`, IN_TIME);
    assert.equal(await completed(client, 'await wait(300); kept'), "'kept'");
  });

  test('counts when its main thread has ended', async (t) => {
    const client = await started(t);
    const headless = `
import ctypes, os, platform, threading, time
def fill():
    with open("held", "wb") as f:
        os.remove("held")
        for _ in range(30): f.write(os.urandom(1 << 20)); f.flush(); time.sleep(.01)
        time.sleep(1000)
threading.Thread(target=fill).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)`;
    await exceeded(client, `require("child_process").execFileSync("python3", ["-c", ${JSON.stringify(headless)}])`, IN_TIME);
    assert.equal(await completed(client, 'await wait(300); kept'), "'kept'");
  });

  test('counts once', async (t) => {
    const client = await started(t);
    const code = `const holder = spawn("python3", ["-c", ${JSON.stringify(hold(15))}]); await new Promise((r) => holder.stdout.on("data", r)); await wait(500); holder.kill()`;
    assert.equal(await completed(client, code), 'true');
  });
});

describe('a program that hides what it has open is ended', () => {
  // A program that may be run and not be read cannot be looked into.
  const hide = 'fs.copyFileSync("/bin/sleep", "hider"); fs.chmodSync("hider", 0o111);';
  const nobody = 65534;

  test('while it is waited for', async (t) => {
    const client = await started(t, {}, nobody);
    const done = await exceeded(client, `${hide} require("child_process").execFileSync("./hider", ["1000"])`, IN_TIME);
    assert.match(done.error.message, /^this program hides its open files/);
    assert.equal(await completed(client, 'await wait(300); kept'), "'kept'");
  });

  test('when it is left behind', async (t) => {
    const client = await started(t, {}, nobody);
    const { status } = await client.run(`${hide} const left = spawn("./hider", ["1000"], { detached: true, stdio: "ignore" }); 1`);
    const ended = 'left.signalCode ?? (await new Promise((r) => left.on("exit", (_, signal) => r(signal))))';
    // A count may have found it in the run already.
    if (status === 'completed') await client.frame(({ type, level }) => type === 'log' && level === 'warn');
    assert.equal(await completed(client, ended), "'SIGKILL'");
    assert.equal(await completed(client, 'kept'), "'kept'");
  });
});

describe('what is kept from the counts', () => {
  const program = (name, code) => `fs.writeFileSync("${name}.cjs", ${JSON.stringify(`const fs = require("fs"); ${code}`)}); const ${name} = spawn(process.execPath, ["${name}.cjs"], { stdio: "ignore" });`;
  const filesInLocked = 'fs.mkdirSync("locked"); for (let i = 0; i < 10_000; i++) fs.writeFileSync(`locked/${i}`, "");';
  const locker = program('locker', 'for (;;) for (const mode of [0, 0o700]) fs.chmodSync("locked", mode)');
  const unlock = 'fs.chmodSync("locked", 0o700); kept'; // else only root could remove it
  const large = 'fs.writeSync(fd, Buffer.alloc(30 << 20)); await wait(600_000)';
  const nobody = 65534;

  test('because its folder is locked again and again', async (t) => {
    const client = await started(t, { volume_files: 100_000 }, nobody);
    await exceeded(client, `${filesInLocked} const fd = fs.openSync("locked/large", "w"); ${locker} ${large}`, IN_TIME);
    assert.equal(await completed(client, unlock), "'kept'");
  });

  test('because the work directory itself is locked', async (t) => {
    const client = await started(t, {}, nobody);
    await exceeded(client, `fs.chmodSync(".", 0o300); const fd = fs.openSync("large", "w"); ${large}`, IN_TIME);
    assert.equal(await completed(client, 'kept'), "'kept'");
  });

  test('by a program that was left behind', async (t) => {
    const client = await started(t, { volume_files: 100_000 }, nobody);
    await completed(client, `${filesInLocked} ${locker} 1`);
    assert.equal(await completed(client, 'locker.signalCode ?? (await new Promise((r) => locker.on("exit", (_, signal) => r(signal))))'), "'SIGKILL'");
    assert.equal(await completed(client, unlock), "'kept'");
  });

  test('because the folders above it are renamed again and again', async (t) => {
    const client = await started(t, { volume_files: 100_000 });
    // In a run of its own: what has to be opened has to stay where it is.
    const open = 'fs.mkdirSync("a/".repeat(30), { recursive: true }); for (let i = 0; i < 15_000; i++) fs.writeFileSync(`${"a/".repeat(i % 30)}f${i}`, ""); const fd = fs.openSync(`${"a/".repeat(30)}large`, "w");';
    const rename = 'const at = [fs.openSync(".")]; for (let i = 1; i <= 30; i++) at.push(fs.openSync("a/".repeat(i))); const all = (from, to) => { for (const fd of at.slice(0, 30)) fs.renameSync(`/proc/self/fd/${fd}/${from}`, `/proc/self/fd/${fd}/${to}`) }; fs.writeFileSync("renames", ""); for (;;) { all("a", "b"); all("b", "a") }';
    const waiting = 'while (!fs.existsSync("renames")) await wait(10);';
    await exceeded(client, `${open} ${program('renamer', rename)} ${waiting} ${large}`, IN_TIME);
    assert.equal(await completed(client, 'kept'), "'kept'");
  });
});

test('a folder that cannot be opened is not taken for an empty one', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tally-test-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [code, locked] of [['EMFILE', true], ['ENOENT', false]]) {
    const open = t.mock.method(fs, 'openSync', () => {
      throw Object.assign(new Error(code), { code });
    });
    const tally = new Tally(folder);
    assert.ok(tally.step(1000));
    assert.deepEqual([tally.locked, tally.complete], [locked, !locked]);
    open.mock.restore();
  }
});

test('what is deep is counted, and what lies beside it', async (t) => {
  const client = await started(t, { volume_files: 100_000 });
  const before = await usage(client);
  await completed(client, `for (let i = 0; i < 300; i++) { for (const name of ["a", "z"]) fs.writeFileSync(name, ""); fs.mkdirSync("n".repeat(200)); process.chdir("n".repeat(200)) } process.chdir(${JSON.stringify(client.workDir)})`);
  const { files, complete } = await usage(client);
  assert.deepEqual([files - before.files, complete], [900, true]);
  // Its paths are too long for the client, which removes the rest.
  await completed(client, 'require("child_process").execFileSync("rm", ["-rf", "n".repeat(200)]).length');
});

async function usage(client) {
  const from = client.frames.length;
  client.send({ type: 'usage', n: 1 });
  return client.frame(({ type }) => type === 'usage', from);
}

test('a fresh run is stopped too', async (t) => {
  const client = await started(t);
  const done = await exceeded(client, 'for (;;) require("fs").appendFileSync("f", Buffer.alloc(1 << 16))', { fresh: true });
  assert.equal(done.kernel, 'fresh');
});

test('code that cannot be stopped is killed after its grace', async (t) => {
  const client = await started(t);
  const stubborn = 'spawn("sh", ["-c", "while :; do head -c 65536 /dev/zero >> f; done"], { detached: true }).unref(); require("child_process").execSync("mkfifo fifo"); fs.readFileSync("fifo")';
  const done = await exceeded(client, stubborn, { ...IN_TIME, grace_ms: 300 });
  assert.equal(done.kernel, 'dead');
});

test('a run that begins over the limit may add a little', async (t) => {
  const client = await started(t);
  await exceeded(client, 'fs.writeFileSync("large", ""); fs.truncateSync("large", 30 << 20)');
  assert.equal(await completed(client, 'for (let i = 0; i < 30; i++) fs.writeFileSync(`little-${i}`, Buffer.alloc(4096)); await wait(500); "ok"'), "'ok'");
  await exceeded(client, 'fs.writeFileSync("more", Buffer.alloc(2 << 20)); await wait(1e9)');
});

describe('what lies far over the limit', () => {
  const holes = 'for (let i = 0; i < 6; i++) { fs.writeFileSync(`holes-${i}`, ""); fs.truncateSync(`holes-${i}`, 100 << 20) }';
  // By writing: a call of fallocate that is interrupted may give back what it has taken.
  const fillHoles = 'for i in 0 1 2 3 4 5; do head -c 100M /dev/zero 1<>holes-$i; sleep 0.3; done';
  const fillHole = (path, stdio) => `require("child_process").execFileSync("sh", ["-c", "head -c 600M /dev/zero 1<>${path}"], { stdio: ${stdio} }); await wait(1e9)`;
  const refused = (done) => [done.status, done.error?.name, done.cause, done.kernel, done.duration_ms];

  test('is the last that is run', async (t) => {
    const client = await started(t);
    await exceeded(client, holes);
    await exceeded(client, `require("child_process").execFileSync("sh", ["-c", ${JSON.stringify(fillHoles)}]); await wait(1e9)`, IN_TIME);
    for (const fresh of [false, true]) assert.deepEqual(refused(await client.run('kept', { fresh })), ['failed', 'QuotaExceeded', 'full', 'alive', 0]);
  });

  test('is not filled by a program that was left behind either', async (t) => {
    const client = await started(t);
    await exceeded(client, holes);
    await completed(client, `const left = spawn("sh", ["-c", ${JSON.stringify(`${fillHoles}; exec sleep 1000`)}], { stdio: "ignore" }); 1`);
    await client.frame(({ type, level }) => type === 'log' && level === 'warn');
  });

  test('is found before the first run', async (t) => {
    const client = await Client.start({ volume_bytes: BYTES, volume_files: FILES });
    t.after(() => client.child.kill('SIGTERM'));
    execFileSync('fallocate', ['-l', '600M', join(client.workDir, 'large')]);
    assert.deepEqual(refused(await client.run('1')), ['failed', 'QuotaExceeded', 'full', 'alive', 0]);
    await wait(500); // in which the kernel is looked at several times
    assert.deepEqual(client.frames.filter(({ type }) => type === 'log'), []);
    rmSync(join(client.workDir, 'large'));
    assert.equal(await completed(client, '1'), '1');
  });

  test('ends a kernel that holds it', async (t) => {
    const client = await started(t);
    await exceeded(client, 'const fd = fs.openSync("held", "w"); fs.unlinkSync("held"); fs.ftruncateSync(fd, 600 << 20); await wait(1e9)');
    await exceeded(client, fillHole('/proc/self/fd/3', '[0, 1, 2, fd]'));
    const { state, cause } = await client.frame(({ type }) => type === 'kernel');
    assert.deepEqual([state, cause], ['dead', 'quota']);
    assert.equal(await completed(client, 'typeof kept'), "'undefined'");
  });

  test('ends a kernel that adds to it between runs', async (t) => {
    const client = await started(t);
    await exceeded(client, 'const fd = fs.openSync("large", "w"); fs.ftruncateSync(fd, 2 ** 40); await wait(1e9)');
    await completed(client, 'let at = 0; setInterval(() => { at += fs.writeSync(fd, Buffer.alloc(4 << 20), 0, 4 << 20, at) }, 5); 1');
    const { state, cause } = await client.frame(({ type }) => type === 'kernel');
    assert.deepEqual([state, cause], ['dead', 'quota']);
  });

  test('may be deleted by somebody else', async (t) => {
    const client = await started(t);
    await exceeded(client, 'fs.writeFileSync("large", ""); fs.truncateSync("large", 600 << 20); await wait(1e9)');
    await exceeded(client, fillHole('large', '"ignore"'));
    await wait(500); // in which an idle kernel is looked at several times
    assert.equal((await client.run('kept')).cause, 'full');
    await wait(500);
    rmSync(join(client.workDir, 'large'));
    assert.equal(await completed(client, 'kept'), "'kept'");
  });
});

test('without limits nothing is stopped', async (t) => {
  const client = await started(t, { volume_bytes: 0, volume_files: 0 });
  assert.equal(await completed(client, 'fs.writeFileSync("large", ""); fs.truncateSync("large", 2 ** 40); await wait(300); "ok"'), "'ok'");
  const one = await started(t, { volume_bytes: 0 });
  assert.equal(await completed(one, 'fs.writeFileSync("large", ""); fs.truncateSync("large", 2 ** 40); await wait(300); "ok"'), "'ok'");
  await exceeded(one, 'for (let i = 0; ; i++) fs.writeFileSync(`small-${i}`, "")');
});

test('a program that writes on after its run is killed, and the kernel is not', async (t) => {
  const client = await started(t);
  const pid = await completed(client, 'const left = spawn("sh", ["-c", "while :; do head -c 65536 /dev/zero >> left; sleep 0.01; done"], { stdio: "ignore" }); left.pid');
  assert.ok(Number(pid) > 0);
  await client.frame(({ type, level }) => type === 'log' && level === 'warn');
  assert.equal(await completed(client, 'left.signalCode ?? (await new Promise((r) => left.on("exit", (_, signal) => r(signal))))'), "'SIGKILL'");
  assert.equal(await completed(client, 'kept'), "'kept'");
});

test('a kernel that writes on after its run is killed', async (t) => {
  const client = await started(t);
  await completed(client, 'setInterval(() => fs.appendFileSync("timer", Buffer.alloc(1 << 17)), 5); 1');
  const { state, cause } = await client.frame(({ type }) => type === 'kernel');
  assert.deepEqual([state, cause], ['dead', 'quota']);
  assert.equal((await client.run('typeof kept')).result, "'undefined'");
});

describe('where somebody else fills the directory', () => {
  /** fillUp makes a file over the limit, as another container does. */
  function fillUp(client) {
    writeFileSync(join(client.workDir, 'theirs'), '');
    truncateSync(join(client.workDir, 'theirs'), 2 * BYTES);
  }

  test('a run that waits goes on', async (t) => {
    const client = await started(t);
    const id = client.begin('console.log("waits"); await wait(4000); fs.writeFileSync("small", "x"); "went on"');
    await client.frame(({ type }) => type === 'progress'); // the run has been counted by then
    fillUp(client);
    const done = await client.done(id);
    assert.deepEqual([done.status, done.result], ['completed', "'went on'"]);
  });

  // idleWhileFilled tells what becomes of an idle kernel and its program, and whether the two slept all the while: V8
  // collects garbage when it likes.
  async function idleWhileFilled(t) {
    const client = await started(t);
    const pids = (await completed(client, 'const sleeper = spawn("sleep", ["1000"]); [process.pid, sleeper.pid].join()')).match(/\d+/g);
    await asleep(pids);
    const before = processorTimes(pids);
    fillUp(client);
    await wait(3000);
    const slept = !hasRun(before, processorTimes(pids));
    const state = await completed(client, '[kept, sleeper.exitCode, sleeper.signalCode, sleeper.kill()].join()');
    return { slept, state, kernel: client.frames.filter(({ type }) => type === 'kernel') };
  }

  test('an idle kernel and its sleeping programs are left alone', async (t) => {
    const left = "'kept,,,true'";
    let seen = await idleWhileFilled(t);
    for (let more = 4; more > 0 && !seen.slept && seen.state !== left; more--) seen = await idleWhileFilled(t);
    assert.deepEqual([seen.state, seen.kernel], [left, []]);
  });

  test('a run that begins then may delete it', async (t) => {
    const client = await started(t);
    fillUp(client);
    await wait(100); // the clock of files must tick in between
    assert.equal(await completed(client, 'await wait(500); fs.rmSync("theirs"); await wait(300); "deleted"'), "'deleted'");
  });
});

/** growTree makes so many files that it takes a while to count them. */
function growTree(client) {
  for (let i = 0; i < 20_000; i++) {
    if (i % 500 === 0) mkdirSync(join(client.workDir, `d${i / 500}`));
    writeFileSync(join(client.workDir, `d${Math.floor(i / 500)}`, `f${i}`), '');
  }
}

test('a run that ends in the middle of a count is judged all the same', async (t) => {
  const client = await started(t, { volume_files: 1_000_000 });
  growTree(client);
  await exceeded(client, `${fill['a file without a name in no time']}; await wait(150)`, IN_TIME);
  assert.equal(await completed(client, 'kept'), "'kept'");
});

test('who wrote is known where counts are far apart', async (t) => {
  const client = await started(t, { volume_files: 1_000_000 });
  growTree(client);
  await exceeded(client, `await wait(1500); ${fill['sparse files']}`, IN_TIME);
  assert.equal(await completed(client, 'kept'), "'kept'");
});

test('interrupts and pings are answered while a large tree is counted', async (t) => {
  const client = await started(t, { volume_files: 1_000_000 });
  growTree(client);
  const id = client.begin('while (true);', { timeout_ms: 0, grace_ms: PATIENT });
  for (let i = 0; i < 200; i++) {
    client.send({ type: 'ping', n: i });
    await client.frame(({ type, n }) => type === 'pong' && n === i);
    await wait(2);
  }
  client.send({ type: 'interrupt', id, reason: 'cancelled' });
  assert.deepEqual([(await client.done(id)).status], ['cancelled']);
});

test('an idle supervisor is not woken by it', async (t) => {
  const client = await started(t);
  await completed(client, 'fs.writeFileSync("file", "x"); 1');
  const switches = () => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(readFileSync(`/proc/${client.child.pid}/status`, 'utf8'))[1]);
  // The watch ends a moment after the last run; from then on hardly anything happens.
  for (let quiet = 0; quiet < 3; ) {
    const before = switches();
    await wait(1000);
    quiet = switches() - before < 5 ? quiet + 1 : 0;
  }
});
