// Artifacts and displays: what a run left in the work directory, and what it showed.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start({ max_artifacts: 10, max_displays: 5, image_bytes: 1000, output_bytes: 2000 });
after(() => client.stop());

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
await client.run(`const fs = require('fs'); const png = Buffer.from('${PNG}', 'base64')`);

const paths = (done) => done.artifacts.map(({ path }) => path).sort();

test('files that a run made or changed are its artifacts', async () => {
  const made = await client.run('fs.mkdirSync("deep/er", { recursive: true }); fs.writeFileSync("deep/er/b.txt", "bb"); fs.writeFileSync("a.csv", "1,2")');
  assert.deepEqual(paths(made), ['a.csv', 'deep/er/b.txt']);
  const { size_bytes, modified_ms } = made.artifacts.find(({ path }) => path === 'a.csv');
  assert.equal(size_bytes, 3);
  assert.ok(Number.isInteger(modified_ms) && modified_ms > 1.6e12);
  assert.equal(made.artifacts_total, 2);
  assert.deepEqual(paths(await client.run('fs.readFileSync("a.csv").length')), []);
  assert.deepEqual(paths(await client.run('fs.appendFileSync("a.csv", "\\n")')), ['a.csv']);
  assert.deepEqual(paths(await client.run('fs.renameSync("a.csv", "renamed.csv")')), ['renamed.csv']);
  assert.deepEqual(paths(await client.run('fs.rmSync("renamed.csv")')), []);
});

test('a run right behind another does not get its artifacts', async () => {
  for (let i = 0; i < 10; i++) {
    const [first, second] = [await client.run(`fs.writeFileSync("quick.txt", "${i}")`), await client.run('1')];
    assert.deepEqual([paths(first), paths(second)], [['quick.txt'], []]);
  }
});

test('a failed, a cancelled and a fresh run have artifacts too', async () => {
  assert.deepEqual(paths(await client.run('fs.writeFileSync("failed.txt", ""); throw 1')), ['failed.txt']);
  assert.deepEqual(paths(await client.run('fs.writeFileSync("slow.txt", ""); await new Promise(() => {})', { timeout_ms: 100 })), ['slow.txt']);
  assert.deepEqual(paths(await client.run('require("fs").writeFileSync("fresh.txt", "")', { fresh: true })), ['fresh.txt']);
});

test('input, hidden and package folders, links and special files are none', async () => {
  const code = `
    for (const folder of ['input', '.hidden', 'node_modules/x', 'sub/.cache', 'sub/input']) {
      fs.mkdirSync(folder, { recursive: true });
      fs.writeFileSync(folder + '/f.txt', '');
    }
    fs.writeFileSync('.dot', '');
    fs.symlinkSync('/etc/passwd', 'link');
    fs.symlinkSync('/etc', 'folderlink');
    require('child_process').execSync('mkfifo pipe');
    fs.writeFileSync('seen.txt', '');`;
  assert.deepEqual(paths(await client.run(code)), ['seen.txt', 'sub/input/f.txt']);
});

test('many artifacts are counted and the newest told', async () => {
  const done = await client.run('for (let i = 0; i < 30; i++) { fs.writeFileSync(`many-${i}.txt`, ""); fs.utimesSync(`many-${i}.txt`, 1e9, 1e9 + i) }');
  assert.equal(done.artifacts_total, 30);
  assert.deepEqual(done.artifacts.map(({ path }) => path), Array.from({ length: 10 }, (_, i) => `many-${29 - i}.txt`));
});

test('strange names and depths do no harm', async () => {
  const code = `
    fs.writeFileSync('new\\nline "quoted" \\u202e.txt', '');
    fs.writeFileSync(Buffer.from([0x62, 0xff, 0x62]), '');
    let path = 'd'; for (let i = 0; i < 100; i++) path += '/d'; fs.mkdirSync(path, { recursive: true });
    fs.writeFileSync('d/d/ok.txt', ''); fs.writeFileSync(path + '/too-deep.txt', '');`;
  const found = paths(await client.run(code));
  assert.ok(found.includes('new\nline "quoted" \u202e.txt') && found.includes('d/d/ok.txt'));
  assert.ok(!found.some((path) => path.endsWith('too-deep.txt')));
  await client.run('fs.rmSync("d", { recursive: true })');
});

test('files that others wrote between runs are not the run’s', async () => {
  mkdirSync(join(client.workDir, 'other'), { recursive: true });
  writeFileSync(join(client.workDir, 'other/theirs.txt'), 'x');
  utimesSync(join(client.workDir, 'other/theirs.txt'), 2e9, 2e9); // a time that lies
  symlinkSync('/etc', join(client.workDir, 'other/etc'));
  await client.run('await new Promise((r) => setTimeout(r, 50))');
  assert.deepEqual(paths(await client.run('1')), []);
});

test('input and output are there from the beginning', async () => {
  const fresh = await Client.start();
  assert.equal((await fresh.run('require("fs").readdirSync(".").filter((name) => /^(in|out)put$/.test(name)).sort()')).result, "[ 'input', 'output' ]");
  await fresh.stop();
});

test('usage counts every file', async () => {
  const ask = async () => {
    const from = client.frames.length;
    client.send({ type: 'usage', n: 3 });
    return client.frame(({ type }) => type === 'usage', from);
  };
  const before = await ask();
  await client.run('for (const folder of ["input", ".hidden", "node_modules"]) { fs.mkdirSync(folder, { recursive: true }); fs.writeFileSync(folder + "/counted", Buffer.alloc(10_000)) }');
  const { n, files, bytes, complete } = await ask();
  assert.deepEqual([n, files - before.files, complete], [3, 3, true]);
  assert.ok(bytes - before.bytes >= 30_000);
});

test('long and strange texts never make a frame too long', async () => {
  const large = await Client.start({ output_bytes: 1 << 20, image_bytes: 5 << 20, max_artifacts: 5000 });
  const done = await large.run('const zeros = "\\0".repeat(1 << 20); console.log(zeros); console.error(zeros); throw new Error(zeros)');
  assert.equal(done.status, 'failed');
  assert.ok(done.frameBytes <= 8 << 20);
  assert.equal(done.stdout.bytes, (1 << 20) + 1);
  const shown = await large.run(`display({ 'image/png': Buffer.alloc(5 << 20), 'text/plain': '\\0'.repeat(1 << 20) })`);
  const [display] = large.displays(shown.id);
  assert.ok(display.frameBytes <= 8 << 20);
  assert.equal(display.size_bytes, 5 << 20);
  await large.stop();
});

describe('display', () => {
  /** shown runs code and gives its displays without the fields that tell nothing. */
  async function shown(code, options) {
    const done = await client.run(code, options);
    assert.equal(done.status, 'completed', done.error?.traceback);
    return { done, displays: client.displays(done.id) };
  }

  test('an image is sent and kept in full', async () => {
    const { done, displays } = await shown('display(png, { alt: "a dot" })');
    assert.equal(done.result, null);
    assert.equal(done.displays_total, 1);
    const { data, path, size_bytes, alt } = displays[0];
    assert.deepEqual([data, size_bytes, alt], [{ 'image/png': PNG }, Buffer.from(PNG, 'base64').length, 'a dot']);
    assert.match(path, /^output\/image-\d+\.png$/);
    assert.deepEqual(paths(done), [path]);
    assert.equal(readFileSync(join(client.workDir, path)).toString('base64'), PNG);
  });

  test('an image that is too large is kept and not sent', async () => {
    const { displays } = await shown('display(Buffer.concat([png, Buffer.alloc(5000)]))');
    assert.deepEqual([displays[0].data, displays[0].size_bytes], [{}, 5000 + Buffer.from(PNG, 'base64').length]);
    assert.match(displays[0].path, /\.png$/);
  });

  test('an existing file is never replaced', async () => {
    const { displays } = await shown('const before = fs.readdirSync("output").length; for (let i = 1; i < 40; i++) if (!fs.existsSync(`output/image-${i}.png`)) fs.writeFileSync(`output/image-${i}.png`, "mine"); display(png)');
    assert.equal(displays[0].path, 'output/image-40.png');
  });

  const kinds = [
    ['display(new Uint8Array(png))', 'image/png'],
    ['display(png.buffer.slice(png.byteOffset, png.byteOffset + png.length))', 'image/png'],
    ['display(Buffer.from([0xff, 0xd8, 0xff, 0xe0]))', 'image/jpeg'],
    ['display(Buffer.from("GIF89a"))', 'image/gif'],
    ['display(Buffer.from("RIFF0000WEBPVP8 "))', 'image/webp'],
    ['display("<svg xmlns=\'http://www.w3.org/2000/svg\'></svg>")', 'image/svg+xml'],
    ['display("data:image/png;base64," + png.toString("base64"))', 'image/png'],
    ['display({ "image/png": png })', 'image/png'],
    ['display({ "image/png": png.toString("base64"), "text/plain": "dot" })', 'image/png,text/plain'],
    ['display({ "text/html": "<b>x</b>" })', 'text/html'],
    ['display({ "application/json": { a: 1 } })', 'application/json'],
    ['display({ [Symbol.for("Jupyter.display")]: () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['({ [Symbol.for("Jupyter.display")]: async () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['new Proxy({}, { has: () => true, get: () => () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['display(new Proxy({ "text/html": "<b>x</b>" }, {}))', 'text/html'],
    ['display(new Blob([png]))', 'image/png'],
    ['display({ getContext() {}, toBuffer: (type) => type === "image/png" && png })', 'image/png'],
    ['display({ metadata() {}, toBuffer: async () => png })', 'image/png'],
  ];
  for (const [code, types] of kinds) {
    test(code, async () => {
      const { displays } = await shown(code);
      assert.deepEqual(displays.map(({ data }) => Object.keys(data).join()), [types]);
    });
  }

  test('what has no richer form is printed', async () => {
    const { done, displays } = await shown('display({ a: 1 }); display("text"); display(5); display(null); display(Buffer.from("x"))');
    assert.deepEqual([done.stdout.head, displays], ['{ a: 1 }\ntext\n5\nnull\n<Buffer 78>\n', []]);
  });

  test('what refuses to be looked at is printed', async () => {
    const refuse = 'const no = () => { throw new Error("no") }; const { proxy, revoke } = Proxy.revocable({}, {}); revoke()';
    const { done, displays } = await shown(`${refuse}; display(proxy); display(new Proxy({}, { get: no })); display(new Proxy({}, { getPrototypeOf: no })); display({ get toBuffer() { no() } })`);
    const texts = ['<Revoked Proxy>', 'Proxy [ {}, { get: [Function: no] } ]', 'Proxy [ {}, { getPrototypeOf: [Function: no] } ]', '{ toBuffer: [Getter] }'];
    assert.deepEqual([done.stdout.head, displays], [`${texts.join('\n')}\n`, []]);
  });

  test('no more than max_displays are sent, in order', async () => {
    const { done, displays } = await shown('for (let i = 0; i < 9; i++) display({ "text/html": String(i) })');
    assert.equal(done.displays_total, 9);
    assert.deepEqual(displays.map(({ data }) => data['text/html']), ['0', '1', '2', '3', '4']);
  });

  test('a long text is kept in a file and not sent', async () => {
    const { displays } = await shown('display({ "text/html": "h".repeat(5000) })');
    assert.deepEqual([displays[0].data, displays[0].size_bytes], [{}, 5000]);
    assert.match(displays[0].path, /^output\/display-\d+\.html$/);
  });

  test('bad use of it fails the run', async () => {
    assert.equal((await client.run('display({ "image/png": 5 })')).error.name, 'TypeError');
    assert.equal((await client.run('display({ [Symbol.for("Jupyter.display")]() { throw new Error("d") } })')).error.message, 'd');
    assert.equal((await client.run('display({ toBuffer: async () => { throw new Error("b") } }); 1')).error.message, 'b');
  });

  test('a link instead of output leads nowhere else', async () => {
    await client.run('fs.renameSync("output", "moved"); fs.writeFileSync("output", "")');
    assert.equal((await client.run('display(png)')).status, 'failed');
    await client.run('fs.rmSync("output"); fs.mkdirSync("output"); for (let i = 1; i < 99; i++) fs.symlinkSync("/tmp/never-made", `output/image-${i}.png`)');
    assert.match((await shown('display(png)')).displays[0].path, /image-99\.png/);
    assert.ok(!existsSync('/tmp/never-made'));
  });
});
