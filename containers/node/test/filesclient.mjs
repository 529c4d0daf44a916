// A client of the files program for the tests: sends requests and reads answers.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { flags, program } from './program.mjs';

const source = program('files.cjs');

/** encode gives the bytes of a frame. */
export function encode(header, blob = Buffer.alloc(0)) {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const head = Buffer.alloc(8);
  head.writeUInt32BE(text.length, 0);
  head.writeUInt32BE(blob.length, 4);
  return Buffer.concat([head, text, blob]);
}

export class FilesClient {
  stderr = '';
  #pending = [];
  #pendingBytes = 0;
  #wake = () => {};

  /** start runs the program for one test, on a new work directory unless one is given, and says hello. */
  static async start(t, workDir = mkdtempSync(join(tmpdir(), 'files-test-'))) {
    const client = new FilesClient(workDir);
    t.after(async () => {
      client.child.kill('SIGKILL');
      client.child.stdout.destroy(); // which does not close while nobody reads what is left
      await client.ended;
      execFileSync('rm', ['-rf', workDir]); // Node cannot remove what is deeper than a path is long
    });
    await client.ask({ op: 'hello', work_dir: workDir });
    return client;
  }

  constructor(workDir) {
    this.workDir = workDir;
    this.child = spawn(process.execPath, [...flags, source], { stdio: 'pipe' });
    this.ended = new Promise((resolve) => this.child.on('close', (code) => resolve(code)));
    this.child.stdin.on('error', () => {});
    this.child.stderr.on('data', (chunk) => (this.stderr += chunk));
    this.child.stdout.on('readable', () => {
      this.child.stdout.read(0); // without it nobody would hear of an end that comes behind the exit
      this.#wake();
    });
    this.ended.then(() => this.#wake());
  }

  path(name) {
    return join(this.workDir, name);
  }

  /** send resolves when the program takes more. */
  send(header, blob) {
    return new Promise((resolve) => this.child.stdin.write(encode(header, blob), resolve));
  }

  async #read(size) {
    while (this.#pendingBytes < size) {
      const chunk = this.child.stdout.read();
      if (chunk !== null) {
        this.#pending.push(chunk);
        this.#pendingBytes += chunk.length;
        continue;
      }
      if (this.child.stdout.readableEnded) throw new Error(`the program ended: ${this.stderr}`);
      await new Promise((resolve) => (this.#wake = resolve));
    }
    const all = Buffer.concat(this.#pending);
    this.#pending = [all.subarray(size)];
    this.#pendingBytes = all.length - size;
    return all.subarray(0, size);
  }

  /** receive gives the next frame as {header, blob}. */
  async receive() {
    const head = await this.#read(8);
    const header = JSON.parse((await this.#read(head.readUInt32BE(0))).toString());
    return { header, blob: await this.#read(head.readUInt32BE(4)) };
  }

  /** ask gives the header that answers a request. */
  async ask(header) {
    await this.send(header);
    return (await this.receive()).header;
  }

  /** put sends a whole file, and gives the last answer. */
  async put(path, content, options = {}) {
    const first = await this.ask({ op: 'put', path, overwrite: false, ...options });
    if (first.error) return first;
    await this.send({ op: 'data' }, Buffer.from(content));
    return this.ask({ op: 'commit' });
  }

  /** get reads a file, and gives {facts, content, end}, or {error}. */
  async get(path, options = {}) {
    const facts = await this.ask({ op: 'get', path, offset: 0, limit: -1, unit: 'bytes', ...options });
    if (facts.error) return facts;
    const blobs = [];
    for (;;) {
      const { header, blob } = await this.receive();
      if (header.end || header.error) return { facts, content: Buffer.concat(blobs), end: header, error: header.error };
      blobs.push(Buffer.from(blob));
    }
  }

  /** list gives {entries, end, batches}. */
  async list(everything) {
    await this.send({ op: 'list', everything });
    const batches = [];
    for (;;) {
      const { header } = await this.receive();
      if (header.end) return { entries: batches.flat(), end: header, batches };
      batches.push(header.entries);
    }
  }
}
