// A kernel without a supervisor, for the tests of what only the two say to each other.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../main.cjs', import.meta.url));

/** newFolder makes a work directory that is gone when its test is over. */
export function newFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'kernel-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export class KernelClient {
  #pending = Buffer.alloc(0);
  #frames = [];
  #waiting = null;
  #isOver = false;
  #runs = 0;

  /** start begins a kernel in a folder, with flags for Node; it ends with the test. */
  static async start(t, folder, flags = []) {
    const kernel = new KernelClient();
    const child = spawn(process.execPath, ['--no-force-async-hooks-checks', ...flags, main, 'kernel'], {
      stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe'],
      cwd: folder,
    });
    kernel.child = child;
    kernel.exited = new Promise((resolve) => child.on('exit', resolve));
    t.after(() => child.kill('SIGKILL'));
    for (const fd of [3, 4]) child.stdio[fd].on('error', () => {});
    child.stdio[3].on('data', (chunk) => kernel.#receive(chunk));
    child.stdio[4].on('data', (chunk) => kernel.onWatcher?.(chunk));
    kernel.watched = new Promise((resolve) => child.stdio[4].once('data', resolve));
    child.on('exit', () => {
      kernel.#isOver = true;
      kernel.#waiting?.();
    });
    kernel.send({ type: 'init', work_dir: folder, env: {}, preload: [], output_bytes: 2000, image_bytes: 1000 });
    await kernel.frame('hello');
    return kernel;
  }

  #receive(chunk) {
    this.#pending = Buffer.concat([this.#pending, chunk]);
    while (this.#pending.length >= 8) {
      const end = 8 + this.#pending.readUInt32BE(0);
      const whole = end + this.#pending.readUInt32BE(4);
      if (this.#pending.length < whole) return;
      this.#frames.push(JSON.parse(this.#pending.toString('utf8', 8, end)));
      this.#pending = this.#pending.subarray(whole);
      this.#waiting?.();
    }
  }

  send(message, fd = 3) {
    const body = Buffer.from(JSON.stringify(message));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    this.child.stdio[fd].write(Buffer.concat([head, body]));
  }

  /** frame waits for a frame of a type. It fails when the kernel ends first. */
  async frame(type) {
    for (;;) {
      const at = this.#frames.findIndex((frame) => frame.type === type);
      if (at >= 0) return this.#frames.splice(at, 1)[0];
      if (this.#isOver) throw new Error(`the kernel ended before ${type}`);
      await new Promise((resolve) => (this.#waiting = resolve));
    }
  }

  /** begin sends a run and gives its id. */
  begin(code) {
    const id = `r${++this.#runs}`;
    this.send({ type: 'run', id, code, linger_ms: 100 });
    return id;
  }

  run(code) {
    this.begin(code);
    return this.frame('done');
  }

  /** value gives the result of code as text, or its error. */
  async value(code) {
    const { result, error } = await this.run(code);
    return error ? `${error.name}: ${error.message}` : result;
  }

  freeze(options = {}) {
    this.send({ type: 'freeze', path: '.state/javascript.frozen', limit_bytes: 1 << 30, seconds: 20, ...options });
    return this.frame('frozen');
  }

  wake(options = {}) {
    this.send({ type: 'wake', path: '.state/javascript.frozen', seconds: 20, ...options });
    return this.frame('woken');
  }

  describe(options = {}) {
    this.send({ type: 'describe', ...options });
    return this.frame('described');
  }

  async stop() {
    this.child.kill('SIGKILL');
    await this.exited;
  }
}
