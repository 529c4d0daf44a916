// A client of the kernel protocol for the tests: it starts a supervisor, sends frames and
// collects what comes back.
import { spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const supervisor = process.env.SUPERVISOR ?? here('../../../../bin/supervisor');
const main = here('../main.cjs');

/** slowness is how many times slower than others the machine is, where it is emulated. */
const slowness = Number(process.env.E2E_SLOWNESS ?? 1);

/** PATIENT is a grace for code that shall not be killed: V8 parses JSON, say, to its end before it hears of an interrupt. */
export const PATIENT = 20_000 * slowness;

export const defaults = {
  type: 'init',
  protocol: 4,
  env: {},
  preload: {},
  warm: [],
  idle_seconds: 0,
  on_eof: 'exit',
  output_bytes: 2000,
  spool_bytes: 1 << 20,
  image_bytes: 100_000,
  max_displays: 5,
  max_artifacts: 10,
};

export class Client {
  frames = [];
  stderr = '';
  ended = false;
  #waiting = new Set();
  #pending = Buffer.alloc(0);
  #runs = 0;

  /**
   * start begins a supervisor with the defaults and what overrides them, in an environment with
   * env; null sends no init. As user, if one is given, where the test itself may do anything.
   */
  static async start(overrides = {}, env = {}, user = undefined) {
    const client = new Client();
    client.workDir = mkdtempSync(join(tmpdir(), 'supervisor-test-'));
    // In a group of its own, so that a kernel which was only starting does not stay behind: outside of
    // a container nothing ends it when it waits for a supervisor that has gone.
    const options = { stdio: ['pipe', 'pipe', 'pipe'], detached: true, cwd: client.workDir, env: { ...process.env, ...env } };
    if (user !== undefined && process.getuid() === 0) {
      Object.assign(options, { uid: user, gid: user });
      chownSync(client.workDir, user, user);
    }
    options.env.PATH = `${dirname(process.execPath)}:${options.env.PATH}`; // the Node that runs the tests
    client.child = spawn(supervisor, [`javascript=${main}`], options);
    client.exited = new Promise((resolve) => client.child.on('exit', (code, signal) => resolve({ code, signal })));
    client.#join(client.child.stdin, client.child.stdout);
    client.child.stderr.on('data', (chunk) => (client.stderr += chunk));
    client.exited.then(() => client.#clear());
    if (overrides === null) return client;
    client.send({ ...defaults, work_dir: client.workDir, ...overrides });
    client.ready = await client.frame((message) => message.type === 'ready');
    return client;
  }

  /** connect speaks to a supervisor that runs, over a socket. closed resolves when the connection is. */
  static async connect(path) {
    const client = new Client();
    client.socket = connect(path);
    client.closed = new Promise((resolve) => client.socket.on('close', resolve));
    await new Promise((resolve, reject) => client.socket.on('connect', resolve).on('error', reject));
    client.#join(client.socket, client.socket);
    client.closed.then(() => client.#end());
    return client;
  }

  #join(input, output) {
    this.input = input;
    input.on('error', () => {});
    output.on('data', (chunk) => this.#receive(chunk));
  }

  #receive(chunk) {
    this.#pending = Buffer.concat([this.#pending, chunk]);
    while (this.#pending.length >= 5) {
      const end = 5 + this.#pending.readUInt32BE(0);
      if (this.#pending.length < end) return;
      const isControl = this.#pending[4] === 0x63;
      const text = this.#pending.toString('utf8', 5, end);
      this.#pending = this.#pending.subarray(end);
      if (!isControl) continue;
      this.frames.push({ ...JSON.parse(text), frameBytes: text.length });
      this.#notify();
    }
  }

  #end() {
    this.ended = true;
    this.#notify();
  }

  #clear() {
    this.#end();
    try {
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // There is nobody left.
    }
    rmSync(this.workDir, { recursive: true, force: true, maxRetries: 5 });
  }

  #notify() {
    for (const check of this.#waiting) check();
  }

  send(message) {
    const body = Buffer.from(JSON.stringify(message));
    const head = Buffer.from([0, 0, 0, 0, 0x63]);
    head.writeUInt32BE(body.length);
    this.sendBytes(Buffer.concat([head, body]));
  }

  sendBytes(bytes) {
    this.input.write(bytes);
  }

  /** frame waits for a frame that matches, from the from-th on. It fails when the supervisor ends first. */
  frame(matches, from = 0) {
    return new Promise((resolve, reject) => {
      let next = from;
      const check = () => {
        let found;
        while (next < this.frames.length && found === undefined) if (matches(this.frames[next++])) found = this.frames[next - 1];
        if (found === undefined && !this.ended) return;
        this.#waiting.delete(check);
        if (found === undefined) reject(new Error(`supervisor ended: ${this.stderr}`));
        else resolve(found);
      };
      this.#waiting.add(check);
      check();
    });
  }

  /** begin sends a run and gives its id. */
  begin(code, options = {}) {
    const id = `${this.child ? 'r' : 's'}${++this.#runs}`;
    this.send({ type: 'run', language: 'javascript', id, code, fresh: false, timeout_ms: 30_000 * slowness, grace_ms: 5000, linger_ms: 300, ...options });
    return id;
  }

  done(id) {
    return this.frame((message) => message.type === 'done' && message.id === id);
  }

  /** run sends code and gives its done frame. */
  run(code, options) {
    return this.done(this.begin(code, options));
  }

  displays(id) {
    return this.frames.filter((message) => message.type === 'display' && message.id === id);
  }

  async stop() {
    this.send({ type: 'stop' });
    await this.exited;
  }
}
