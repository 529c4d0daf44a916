// files.cjs, with tally.cjs in it: what the server asks of it, and what hostile code does to it.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { FilesClient, encode } from './filesclient.mjs';

const MiB = 1 << 20;

/** names lists what is in a folder. */
const names = (path) => fs.readdirSync(path).sort();

/** residentBytes is the most memory that a process has had. */
const residentBytes = (pid) => Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;

/** openFiles counts a process's descriptors. */
const openFiles = (pid) => fs.readdirSync(`/proc/${pid}/fd`).length;

describe('put', () => {
  test('brings a file to its place, with its folders', async (t) => {
    const client = await FilesClient.start(t);
    const done = await client.put('a/b/ü.txt', 'content');
    assert.deepEqual(done, { ok: true, path: 'a/b/ü.txt', size_bytes: 7 });
    assert.equal(fs.readFileSync(client.path('a/b/ü.txt'), 'utf8'), 'content');
    const stat = fs.statSync(client.path('a/b/ü.txt'));
    assert.deepEqual([stat.mode & 0o777, stat.nlink], [0o644, 1]);
    assert.deepEqual(names(client.path('.uploads')), []);
  });

  test('sets mode and time where they are given', async (t) => {
    const client = await FilesClient.start(t);
    await client.put('run.sh', '', { mode: 0o100755, modified_ms: 1_500_000_000_123 });
    const stat = fs.statSync(client.path('run.sh'));
    assert.deepEqual([stat.mode & 0o7777, Math.round(stat.mtimeMs), stat.size], [0o755, 1_500_000_000_123, 0]);
  });

  test('replaces only when it is told to, and a folder never', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('file'), 'old');
    fs.mkdirSync(client.path('folder'));
    const refused = await client.put('file', 'new');
    assert.deepEqual([refused.error.code, refused.error.size_bytes], ['file_exists', 3]);
    assert.equal((await client.put('folder', 'new', { overwrite: true })).error.code, 'is_directory');
    assert.equal((await client.put('folder', 'new')).error.code, 'is_directory');
    assert.equal(fs.readFileSync(client.path('file'), 'utf8'), 'old');
    assert.deepEqual(await client.put('file', 'newer', { overwrite: true }), { ok: true, path: 'file', size_bytes: 5 });
    assert.equal(fs.readFileSync(client.path('file'), 'utf8'), 'newer');
  });

  test('does not replace what came while the data came', async (t) => {
    const client = await FilesClient.start(t);
    for (const make of [(path) => fs.writeFileSync(path, 'faster'), (path) => fs.symlinkSync('nowhere', path)]) {
      assert.ok((await client.ask({ op: 'put', path: 'raced', overwrite: false })).ok);
      await client.send({ op: 'data' }, Buffer.from('slower'));
      make(client.path('raced'));
      assert.equal((await client.ask({ op: 'commit' })).error.code, 'file_exists');
      assert.deepEqual(names(client.path('.uploads')), []);
      fs.rmSync(client.path('raced'));
    }
    assert.ok((await client.ask({ op: 'put', path: 'raced', overwrite: true })).ok);
    fs.mkdirSync(client.path('raced'));
    assert.equal((await client.ask({ op: 'commit' })).error.code, 'is_directory');
  });

  test('abort and the end of stdin leave nothing', async (t) => {
    const client = await FilesClient.start(t);
    assert.ok((await client.ask({ op: 'put', path: 'never' })).ok);
    await client.send({ op: 'data' }, Buffer.alloc(1000));
    assert.deepEqual(await client.ask({ op: 'abort' }), { ok: true });
    assert.deepEqual([names(client.workDir), names(client.path('.uploads'))], [['.uploads'], []]);
    assert.ok((await client.ask({ op: 'put', path: 'never' })).ok);
    await client.send({ op: 'data' }, Buffer.alloc(1000));
    assert.equal(names(client.path('.uploads')).length, 1);
    client.child.stdin.end();
    assert.equal(await client.ended, 0);
    assert.deepEqual([names(client.workDir), names(client.path('.uploads'))], [['.uploads'], []]);
  });

  test('half a frame at the end leaves nothing', async (t) => {
    const client = await FilesClient.start(t);
    assert.ok((await client.ask({ op: 'put', path: 'never' })).ok);
    client.child.stdin.end(encode({ op: 'data' }, Buffer.alloc(1000)).subarray(0, 500));
    assert.equal(await client.ended, 0);
    assert.deepEqual(names(client.path('.uploads')), []);
  });

  test('after an error passes over the data, and answers what follows', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('file'), 'old');
    for (const end of ['commit', 'abort']) {
      assert.equal((await client.ask({ op: 'put', path: 'file' })).error.code, 'file_exists');
      await client.send({ op: 'data' }, Buffer.alloc(1000));
      await client.send({ op: 'data' }, Buffer.alloc(1000));
      await client.send({ op: end });
      assert.equal((await client.put(`after ${end}`, 'x')).ok, true);
    }
    assert.equal((await client.ask({ op: 'put', path: 'file' })).error.code, 'file_exists');
    assert.ok((await client.ask({ op: 'hello', work_dir: client.workDir })).ok);
  });

  test('old parts are removed at the start, others are not', async (t) => {
    const first = await FilesClient.start(t);
    fs.mkdirSync(first.path('.uploads'));
    fs.writeFileSync(first.path('.uploads/old'), '');
    fs.writeFileSync(first.path('.uploads/new'), '');
    fs.utimesSync(first.path('.uploads/old'), Date.now() / 1000 - 601, Date.now() / 1000 - 601);
    assert.ok((await first.ask({ op: 'hello', work_dir: first.workDir })).ok);
    assert.deepEqual(names(first.path('.uploads')), ['new']);
  });

  test('.uploads that is a link or a file is not used', async (t) => {
    const client = await FilesClient.start(t);
    fs.mkdirSync(client.path('elsewhere'));
    fs.symlinkSync('elsewhere', client.path('.uploads'));
    assert.equal((await client.put('file', 'x')).error.code, 'failed');
    await client.send({ op: 'abort' });
    fs.rmSync(client.path('.uploads'));
    fs.writeFileSync(client.path('.uploads'), '');
    assert.equal((await client.put('file', 'x')).error.code, 'failed');
    assert.deepEqual(names(client.path('elsewhere')), []);
  });

  test('a large file goes through without being held', async (t) => {
    const client = await FilesClient.start(t);
    const blob = Buffer.alloc(MiB, 'x');
    assert.ok((await client.ask({ op: 'put', path: 'large' })).ok);
    const before = residentBytes(client.child.pid);
    for (let i = 0; i < 500; i++) await client.send({ op: 'data' }, blob);
    assert.equal((await client.ask({ op: 'commit' })).size_bytes, 500 * MiB);
    await client.send({ op: 'get', path: 'large', offset: 0, limit: -1, unit: 'bytes' });
    let total = 0;
    for (let header = {}; !header.end; ) {
      const frame = await client.receive();
      header = frame.header;
      total += frame.blob.length;
    }
    assert.equal(total, 500 * MiB);
    assert.ok(residentBytes(client.child.pid) - before < 16 * MiB);
  });
});

describe('the limit', () => {
  test('is known before the data comes', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('there'), Buffer.alloc(100_000));
    fs.truncateSync(client.path('there'), 5 * MiB); // a sparse file is as large as it says
    const full = await client.put('more', 'x', { limit_bytes: 5 * MiB });
    assert.equal(full.error.code, 'quota_exceeded');
    assert.ok(full.error.size_bytes >= 5 * MiB);
    assert.equal((await client.put('more', 'x', { limit_files: 1 })).error.code, 'quota_exceeded');
    assert.equal((await client.put('a/b/c/more', 'x', { limit_files: 4 })).error.code, 'quota_exceeded');
    assert.ok((await client.put('a/b/c/more', 'x', { limit_files: 6, limit_bytes: 6 * MiB })).ok);
  });

  test('holds while the data comes', async (t) => {
    const client = await FilesClient.start(t);
    assert.ok((await client.ask({ op: 'put', path: 'grows', limit_bytes: 3 * MiB })).ok);
    for (let i = 0; i < 4; i++) await client.send({ op: 'data' }, Buffer.alloc(MiB));
    const { header } = await client.receive();
    assert.equal(header.error.code, 'quota_exceeded');
    assert.ok(header.error.size_bytes > 3 * MiB);
    assert.deepEqual(names(client.path('.uploads')), []);
    await client.send({ op: 'data' }, Buffer.alloc(MiB));
    await client.send({ op: 'abort' });
    assert.equal((await client.put('small', 'x', { limit_bytes: 3 * MiB })).ok, true);
  });

  test('counts what others write meanwhile', async (t) => {
    const client = await FilesClient.start(t);
    assert.ok((await client.ask({ op: 'put', path: 'grows', limit_bytes: 200 * MiB })).ok);
    await client.send({ op: 'data' }, Buffer.alloc(MiB));
    fs.writeFileSync(client.path('other'), '');
    fs.truncateSync(client.path('other'), 150 * MiB);
    for (let i = 0; i < 100; i++) {
      await client.send({ op: 'data' }, Buffer.alloc(MiB));
      await new Promise((resolve) => setTimeout(resolve, 5)); // it counts again for a part of the time only
    }
    await client.send({ op: 'commit' }); // not answered after a refusal, and else there is something to compare
    assert.equal((await client.receive()).header.error?.code, 'quota_exceeded');
  });

  test('usage counts links once, and every entry', async (t) => {
    const client = await FilesClient.start(t);
    fs.mkdirSync(client.path('folder'));
    const folder = await client.ask({ op: 'usage' });
    assert.deepEqual([folder.ok, folder.files, folder.complete], [true, 1, true]);
    fs.writeFileSync(client.path('folder/file'), Buffer.alloc(MiB));
    for (let i = 0; i < 5; i++) fs.linkSync(client.path('folder/file'), client.path(`hard${i}`));
    fs.writeFileSync(Buffer.concat([Buffer.from(client.path('')), Buffer.of(0x2f, 0xff, 0xfe)]), Buffer.alloc(MiB));
    const all = await client.ask({ op: 'usage' });
    assert.equal(all.files, 8);
    assert.ok(all.bytes >= 2 * MiB && all.bytes < 2.5 * MiB, String(all.bytes));
  });

  test('usage counts what folders take themselves', async (t) => {
    const client = await FilesClient.start(t);
    const folders = ['d', ...Array.from({ length: 100 }, (_, i) => `d/${'x'.repeat(200)}${i}`)];
    for (const folder of folders) fs.mkdirSync(client.path(folder));
    const taken = folders.map((folder) => fs.statSync(client.path(folder))).reduce((sum, { size, blocks }) => sum + Math.max(size, blocks * 512), 0);
    assert.deepEqual(await client.ask({ op: 'usage' }), { ok: true, bytes: taken, files: 101, complete: true });
  });

  test('what is deep or closed is counted', async (t) => {
    const client = await FilesClient.start(t);
    // Deeper than a path can be long.
    execFileSync(process.execPath, ['-e', `process.chdir(${JSON.stringify(client.workDir)}); const fs = require("fs");
      for (let i = 0; i < 60; i++) { fs.mkdirSync("d".repeat(100)); process.chdir("d".repeat(100)) } fs.writeFileSync("f", Buffer.alloc(${MiB}))`]);
    fs.mkdirSync(client.path('closed'));
    fs.writeFileSync(client.path('closed/f'), Buffer.alloc(MiB));
    fs.chmodSync(client.path('closed'), 0);
    const all = await client.ask({ op: 'usage' });
    assert.deepEqual([all.files, all.complete], [63, true]);
    assert.ok(all.bytes >= 2 * MiB);
  });
});

describe('get', () => {
  test('gives bytes, a part of them, or the facts', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('file'), '0123456789');
    fs.utimesSync(client.path('file'), 1.5e9, 1.5e9);
    const whole = await client.get('file');
    assert.deepEqual(whole.facts, { ok: true, path: 'file', size_bytes: 10, modified_ms: 1.5e12 });
    assert.equal(whole.content.toString(), '0123456789');
    assert.deepEqual(whole.end, { end: true, bytes: 10, first_line: 0, lines: 0, complete: true, changed: false });
    for (const [offset, limit, content, complete] of [[3, 4, '3456', false], [3, 7, '3456789', true], [3, 100, '3456789', true], [20, -1, '', true], [0, 0, '', false]]) {
      const part = await client.get('file', { offset, limit });
      assert.deepEqual([part.content.toString(), part.end.complete], [content, complete], `${offset} ${limit}`);
    }
  });

  test('gives lines', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('file'), 'one\ntwo\n\nfour');
    const cases = [
      [0, -1, 0, 'one\ntwo\n\nfour', 1, 4, true],
      [1, 2, 0, 'two\n\n', 2, 2, false],
      [3, 1, 0, 'four', 4, 1, true],
      [4, 1, 0, '', 5, 0, true],
      [99, 1, 0, '', 5, 0, true],
      [0, 9, 6, 'one\ntw', 1, 2, false],
      [0, 9, 4, 'one\n', 1, 1, false],
      [0, 0, 0, '', 1, 0, false],
    ];
    for (const [offset, limit, max_bytes, content, first_line, lines, complete] of cases) {
      const { content: given, end } = await client.get('file', { unit: 'lines', offset, limit, max_bytes });
      assert.deepEqual(
        { content: given.toString(), ...end },
        { content, end: true, bytes: content.length, first_line, lines, complete, changed: false },
        `${offset} ${limit} ${max_bytes}`,
      );
    }
  });

  test('finds lines in a large file', async (t) => {
    const client = await FilesClient.start(t);
    const lines = Array.from({ length: 300_000 }, (_, i) => `line ${i} ${'x'.repeat(i % 40)}`);
    fs.writeFileSync(client.path('file'), lines.join('\n'));
    const { content, end } = await client.get('file', { unit: 'lines', offset: 250_000, limit: 40_000 });
    assert.equal(content.toString(), `${lines.slice(250_000, 290_000).join('\n')}\n`);
    assert.deepEqual([end.first_line, end.lines, end.complete], [250_001, 40_000, false]);
  });

  test('only regular files, and opening never waits', async (t) => {
    const client = await FilesClient.start(t);
    execFileSync('mkfifo', [client.path('fifo')]);
    const server = createServer().listen(client.path('socket'));
    t.after(() => server.close());
    fs.mkdirSync(client.path('folder'));
    fs.symlinkSync('/dev/zero', client.path('device'));
    fs.symlinkSync('fifo', client.path('to fifo'));
    const codes = { fifo: 'invalid_path', socket: 'invalid_path', folder: 'is_directory', '.': 'is_directory', device: 'invalid_path', 'to fifo': 'invalid_path', none: 'not_found', 'none/x': 'not_found' };
    for (const [path, code] of Object.entries(codes)) assert.equal((await client.get(path)).error?.code, code, path);
  });

  test('a file that grows or shrinks or is replaced while it is read', async (t) => {
    const client = await FilesClient.start(t);
    const path = client.path('file');
    /** during reads the file, and changes it when the first bytes have come. */
    const during = async (change) => {
      fs.rmSync(path, { force: true });
      fs.writeFileSync(path, Buffer.alloc(8 * MiB));
      await client.send({ op: 'get', path: 'file', offset: 0, limit: -1, unit: 'bytes' });
      await client.receive();
      await client.receive();
      change();
      for (let bytes = MiB; ; ) {
        const { header, blob } = await client.receive();
        if (header.end) return { ...header, got: bytes };
        bytes += blob.length;
      }
    };
    const grown = await during(() => fs.appendFileSync(path, Buffer.alloc(MiB)));
    assert.deepEqual([grown.got, grown.complete, grown.changed], [8 * MiB, true, true]);
    const shrunk = await during(() => fs.truncateSync(path, 1000));
    assert.ok(shrunk.got < 8 * MiB && !shrunk.complete && shrunk.changed);
    const replaced = await during(() => fs.rmSync(path));
    assert.deepEqual([replaced.got, replaced.complete], [8 * MiB, true]);
  });
});

describe('paths', () => {
  const bad = ['', '/etc/passwd', '..', 'a/../../b', 'a/..', 'nul\0byte', 'new\nline', 'esc\x1b', 'c1\x85', `${'n'.repeat(4096)}`, `${'d/'.repeat(2100)}f`, 'n'.repeat(256), '.uploads/x', '\ud800', 5, null, undefined, {}];
  test('that are none are refused by every request', async (t) => {
    const client = await FilesClient.start(t);
    for (const path of bad) {
      for (const request of [{ op: 'get' }, { op: 'put' }, { op: 'mkdir' }, { op: 'symlink', target: 'x' }]) {
        const answer = await client.ask({ ...request, path });
        assert.equal(answer.error?.code, 'invalid_path', `${request.op} ${String(path).slice(0, 50)}`);
      }
    }
    assert.deepEqual(names(client.workDir), []);
  });

  test('through links stay inside', async (t) => {
    const client = await FilesClient.start(t);
    fs.mkdirSync(client.path('real/sub'), { recursive: true });
    fs.writeFileSync(client.path('real/sub/file'), 'inside');
    const links = {
      'l-file': 'real/sub/file',
      'l-folder': 'real/sub',
      'l-absolute': client.path('real'),
      'real/sub/up': '../../real/sub/file',
      'l-chain': 'l-folder/up',
      'l-root': '.',
    };
    for (const [path, target] of Object.entries(links)) fs.symlinkSync(target, client.path(path));
    for (const path of ['l-file', 'l-folder/file', 'l-absolute/sub/file', 'real/sub/up', 'l-chain', 'l-root/l-root/l-chain']) {
      const got = await client.get(path);
      assert.deepEqual([got.content?.toString(), got.facts?.path], ['inside', 'real/sub/file'], path);
    }
    assert.deepEqual(await client.put('l-folder/new/x', '1'), { ok: true, path: 'real/sub/new/x', size_bytes: 1 });
    assert.equal(fs.readFileSync(client.path('real/sub/new/x'), 'utf8'), '1');
  });

  test('through links that lead out are refused', async (t) => {
    const client = await FilesClient.start(t);
    const outside = fs.mkdtempSync(`${client.workDir}-outside`);
    t.after(() => fs.rmSync(outside, { recursive: true }));
    fs.writeFileSync(`${outside}/secret`, 'secret');
    const links = { 'l-file': `${outside}/secret`, 'l-folder': outside, 'l-up': `../${outside.split('/').pop()}`, 'l-proc': '/proc/self/root', 'l-self': 'l-self', 'l-beside': `${client.workDir}-outside` };
    for (const [path, target] of Object.entries(links)) fs.symlinkSync(target, client.path(path));
    for (const path of ['l-file', 'l-folder/secret', 'l-up/secret', 'l-proc/etc/passwd', 'l-self', 'l-beside']) {
      assert.equal((await client.get(path)).error?.code, 'invalid_path', path);
    }
    for (const path of ['l-folder/new', 'l-up/new', 'l-up/a/b']) {
      assert.equal((await client.put(path, 'x', { overwrite: true })).error?.code, 'invalid_path', path);
      assert.equal((await client.ask({ op: 'mkdir', path })).error?.code, 'invalid_path', path);
    }
    assert.deepEqual(names(outside), ['secret']);
    // A link at the place itself is what is replaced, not what it leads to.
    assert.equal((await client.put('l-file', 'x')).error?.code, 'file_exists');
    await client.send({ op: 'abort' });
    assert.ok((await client.put('l-file', 'mine', { overwrite: true })).ok);
    assert.equal(fs.readFileSync(`${outside}/secret`, 'utf8'), 'secret');
    assert.ok(fs.lstatSync(client.path('l-file')).isFile());
  });

  test('that are changed under its hands never lead out', async (t) => {
    const client = await FilesClient.start(t);
    const outside = fs.mkdtempSync(`${client.workDir}-outside`);
    t.after(() => fs.rmSync(outside, { recursive: true }));
    fs.writeFileSync(`${outside}/file`, 'outside');
    fs.mkdirSync(client.path('folder'));
    fs.writeFileSync(client.path('folder/file'), 'inside');
    fs.symlinkSync(outside, client.path('link'));
    const swap = `const fs = require("fs"); process.chdir(${JSON.stringify(client.workDir)});
      for (;;) { try { fs.renameSync("folder", "kept"); fs.renameSync("link", "folder"); fs.renameSync("folder", "link"); fs.renameSync("kept", "folder") } catch {} }`;
    const swapper = spawn(process.execPath, ['-e', swap]);
    t.after(() => swapper.kill('SIGKILL'));
    await new Promise((resolve) => swapper.on('spawn', resolve));
    const seen = new Set();
    for (let i = 0; i < 400; i++) {
      const got = await client.get('folder/file');
      seen.add(got.error?.code ?? got.content.toString());
      const put = await client.put(`folder/new${i}`, 'x');
      seen.add(put.error?.code ?? 'put');
      await client.send({ op: 'abort' });
      if (!put.error) await client.receive(); // abort without a put is an error
    }
    swapper.kill('SIGKILL');
    assert.deepEqual(names(outside), ['file']);
    assert.ok(!seen.has('outside'), [...seen].join());
  });

  test('hard links are files like others', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('one'), 'x');
    fs.linkSync(client.path('one'), client.path('two'));
    assert.equal((await client.get('two')).content.toString(), 'x');
    assert.ok((await client.put('two', 'new', { overwrite: true })).ok);
    assert.equal(fs.readFileSync(client.path('one'), 'utf8'), 'x');
  });

  test('are found in the other Unicode form', async (t) => {
    const client = await FilesClient.start(t);
    const [composed, decomposed] = ['café/é.txt'.normalize('NFC'), 'café/é.txt'.normalize('NFD')];
    for (const [there, asked] of [[composed, decomposed], [decomposed, composed]]) {
      fs.mkdirSync(client.path(there.split('/')[0]));
      fs.writeFileSync(client.path(there), 'x');
      assert.equal((await client.get(asked)).facts.path, there);
      assert.equal((await client.put(asked, 'y')).error.code, 'file_exists');
      await client.send({ op: 'abort' });
      assert.equal((await client.put(asked, 'y', { overwrite: true })).path, there);
      assert.deepEqual(names(client.path(there.split('/')[0])), [there.split('/')[1]]);
      fs.rmSync(client.path(there.split('/')[0]), { recursive: true });
    }
  });

  test('a file where a folder should be', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('file'), '');
    for (const path of ['file/x', 'file/x/y']) {
      assert.equal((await client.get(path)).error.code, 'not_found');
      assert.equal((await client.put(path, '')).error.code, 'invalid_path');
      assert.equal((await client.ask({ op: 'mkdir', path })).error.code, 'invalid_path');
    }
  });
});

describe('folders and links', () => {
  test('are made, with the folders above', async (t) => {
    const client = await FilesClient.start(t);
    for (let i = 0; i < 2; i++) assert.deepEqual(await client.ask({ op: 'mkdir', path: 'a/b' }), { ok: true });
    assert.deepEqual(await client.ask({ op: 'symlink', path: 'a/c/link', target: '../b' }), { ok: true });
    assert.equal(fs.readlinkSync(client.path('a/c/link')), '../b');
    assert.equal((await client.ask({ op: 'symlink', path: 'a/c/link', target: 'x' })).error.code, 'file_exists');
    assert.equal((await client.ask({ op: 'symlink', path: 'a/b', target: 'x' })).error.code, 'is_directory');
    for (const target of ['', 5, 'a\0b', 'x'.repeat(5000)]) assert.equal((await client.ask({ op: 'symlink', path: 'l', target })).error.code, 'invalid_path');
    fs.writeFileSync(client.path('file'), '');
    assert.equal((await client.ask({ op: 'mkdir', path: 'file' })).error.code, 'file_exists');
  });
});

describe('list', () => {
  test('tells visible files, or everything', async (t) => {
    const client = await FilesClient.start(t);
    for (const path of ['a.txt', 'sub/b.txt', 'sub/.hidden', '.dot/c', 'node_modules/d', 'sub/__pycache__/e', 'input/f', '.uploads/g']) {
      fs.mkdirSync(client.path(path.split('/').slice(0, -1).join('/')), { recursive: true });
      fs.writeFileSync(client.path(path), 'xy');
    }
    fs.utimesSync(client.path('a.txt'), 1.5e9, 1.5e9);
    fs.chmodSync(client.path('a.txt'), 0o640);
    fs.symlinkSync('/etc', client.path('link'));
    execFileSync('mkfifo', [client.path('fifo')]);
    const visible = await client.list(false);
    assert.deepEqual(visible.entries.map(([path]) => path).sort(), ['a.txt', 'input/f', 'sub/b.txt']);
    assert.deepEqual(visible.entries.find(([path]) => path === 'a.txt'), ['a.txt', 'f', 2, 1.5e12, 0o640, '']);
    assert.deepEqual(visible.end, { end: true, complete: true, skipped: 0 });
    const all = (await client.list(true)).entries;
    const kinds = all.map(([path, kind]) => `${kind} ${path}`).sort();
    assert.deepEqual(kinds, ['d .dot', 'd input', 'd node_modules', 'd sub', 'd sub/__pycache__', 'f .dot/c', 'f a.txt', 'f input/f', 'f node_modules/d', 'f sub/.hidden', 'f sub/__pycache__/e', 'f sub/b.txt', 'l link']);
    assert.equal(all.find(([path]) => path === 'link')[5], '/etc');
    const at = (path) => all.findIndex((entry) => entry[0] === path);
    assert.ok(at('sub') < at('sub/__pycache__') && at('sub/__pycache__') < at('sub/__pycache__/e'));
  });

  test('passes over names that are no text', async (t) => {
    const client = await FilesClient.start(t);
    for (const name of [Buffer.from('new\nline'), Buffer.from('c1\u0085'), Buffer.of(0x61, 0xff), Buffer.from('ü good')]) {
      fs.writeFileSync(Buffer.concat([Buffer.from(`${client.workDir}/`), name]), '');
    }
    const { entries, end } = await client.list(false);
    assert.deepEqual([entries.map(([path]) => path), end.skipped, end.complete], [['ü good'], 3, true]);
  });

  test('of many files comes in batches', async (t) => {
    const client = await FilesClient.start(t);
    for (let i = 0; i < 12_000; i++) {
      if (i % 1000 === 0) fs.mkdirSync(client.path(`d${i / 1000}`));
      fs.writeFileSync(client.path(`d${Math.floor(i / 1000)}/file ${i}`), '');
    }
    const { entries, batches, end } = await client.list(true);
    assert.deepEqual([entries.length, new Set(entries.map(([path]) => path)).size, end.complete], [12_012, 12_012, true]);
    assert.ok(batches.every((batch) => batch.length <= 500));
    const before = openFiles(client.child.pid);
    await client.list(false);
    assert.equal(openFiles(client.child.pid), before);
  });

  test('of long names and targets keeps its frames short', async (t) => {
    const client = await FilesClient.start(t);
    for (let i = 0; i < 400; i++) fs.symlinkSync('\x01'.repeat(4000), client.path(`${i}${'é'.repeat(100)}`));
    await client.send({ op: 'list', everything: true });
    let longest = 0;
    for (let header = {}; !header.end; longest = Math.max(longest, JSON.stringify(header).length)) header = (await client.receive()).header;
    assert.ok(longest < MiB, String(longest));
  });

  test('goes to a depth, and tells of deeper folders', async (t) => {
    const client = await FilesClient.start(t);
    for (const [depth, complete] of [[200, true], [201, false], [202, false]]) {
      fs.mkdirSync(client.path(Array(depth).fill('d').join('/')), { recursive: true });
      const { entries, end } = await client.list(true);
      assert.deepEqual([entries.length, end.complete], [Math.min(depth, 201), complete]);
    }
  });

  test('of a tree that is far too deep ends', async (t) => {
    const client = await FilesClient.start(t);
    execFileSync(process.execPath, ['-e', `process.chdir(${JSON.stringify(client.workDir)}); for (let i = 0; i < 1200; i++) { require("fs").mkdirSync("d"); process.chdir("d") }`]);
    const { entries, end } = await client.list(true);
    assert.deepEqual([entries.length, end.complete], [201, false]);
  });
});

describe('frames', () => {
  test('that are none end the program', async (t) => {
    const huge = Buffer.alloc(8);
    const bad = {
      'a header that is too long': [(64 << 10) + 1, 0],
      'a blob that is too long': [2, MiB + 1],
      'the largest lengths': [0xffffffff, 0xffffffff],
    };
    for (const [name, [header, blob]] of Object.entries(bad)) {
      const client = await FilesClient.start(t);
      huge.writeUInt32BE(header, 0);
      huge.writeUInt32BE(blob, 4);
      client.child.stdin.write(huge);
      assert.equal(await client.ended, 1, name);
    }
    for (const text of ['', 'no JSON', 'null', '5', '['.repeat(60_000)]) {
      const client = await FilesClient.start(t);
      assert.ok((await client.ask({ op: 'put', path: 'never' })).ok);
      client.child.stdin.write(encode(text));
      assert.equal(await client.ended, 1, text.slice(0, 20));
      assert.deepEqual(names(client.path('.uploads')), []);
    }
  });

  test('may come in any pieces, and in one', async (t) => {
    const client = await FilesClient.start(t);
    const bytes = Buffer.concat([encode({ op: 'put', path: 'p' }), encode({ op: 'data' }, Buffer.from('abc')), encode({ op: 'commit' })]);
    for (const byte of bytes) {
      client.child.stdin.write(Buffer.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual([(await client.receive()).header.ok, (await client.receive()).header.size_bytes], [true, 3]);
    client.child.stdin.write(Buffer.concat([encode({ op: 'get', path: 'p', limit: -1 }), encode({ op: 'usage' })]));
    const answers = [];
    while (answers.length < 4) answers.push((await client.receive()).header);
    assert.deepEqual(answers.map(({ ok, data, end }) => (ok && 'ok') ?? (data && 'data') ?? (end && 'end')), ['ok', 'data', 'end', 'ok']);
  });

  test('out of turn are answered by an error', async (t) => {
    const client = new FilesClient('/nowhere');
    t.after(() => client.child.kill('SIGKILL'));
    for (const op of ['get', 'list', 'usage', 'unknown', undefined]) assert.equal((await client.ask({ op, path: 'x' })).error.code, 'failed');
    assert.ok((await client.ask({ op: 'hello', work_dir: '/nowhere' })).error);
    const other = await FilesClient.start(t);
    assert.equal((await other.ask({ op: 'commit' })).error.code, 'failed');
    assert.ok((await other.ask({ op: 'put', path: 'x' })).ok);
    assert.equal((await other.ask({ op: 'usage' })).error.code, 'failed');
    assert.deepEqual(names(other.path('.uploads')), []);
    assert.ok((await other.ask({ op: 'usage' })).ok);
  });

  test('a server that stops reading ends it', async (t) => {
    const client = await FilesClient.start(t);
    fs.writeFileSync(client.path('large'), Buffer.alloc(20 * MiB));
    client.child.stdout.destroy();
    await client.send({ op: 'get', path: 'large', limit: -1 });
    await client.ended;
  });

  test('nothing stays open behind errors', async (t) => {
    const client = await FilesClient.start(t);
    fs.mkdirSync(client.path('a/b'), { recursive: true });
    fs.symlinkSync('/', client.path('a/out'));
    await client.get('a/b');
    const before = openFiles(client.child.pid);
    for (const path of ['a/b', 'a/none/x', 'a/out/etc', 'a/b/none', '..']) {
      await client.get(path);
      await client.put(path, '', { limit_bytes: 1 });
      await client.send({ op: 'abort' });
      await client.ask({ op: 'mkdir', path: `${path}/../x` });
    }
    assert.equal(openFiles(client.child.pid), before);
  });
});
