// Displays: what a run shows, and the files that keep it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Client } from './harness.mjs';

const client = await Client.start({ image_bytes: 1000 });
after(() => client.stop());

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
await client.run(`const fs = require('fs'); const png = Buffer.from('${PNG}', 'base64')`);

const paths = (done) => done.artifacts.map(({ path }) => path).sort();

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
    ['display({ "image/png": png.toString("base64"), "text/plain": "dot" })', 'image/png'],
    ['display({ "text/html": "<b>x</b>" })', 'text/html'],
    ['display({ "application/json": { a: 1 } })', 'application/json'],
    ['display({ [Symbol.for("Jupyter.display")]: () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['({ [Symbol.for("Jupyter.display")]: async () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['new Proxy({}, { has: () => true, get: () => () => ({ "text/markdown": "# x" }) })', 'text/markdown'],
    ['display(new Proxy({ "text/html": "<b>x</b>" }, {}))', 'text/html'],
    ['display(new Blob([png]))', 'image/png'],
    ['display({ getContext() {}, toBuffer: (type) => type === "image/png" && png })', 'image/png'],
    ['({ getContext() {}, toBuffer: (type) => type === "image/png" && png })', 'image/png'],
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
    const { displays } = await shown('display({ "text/markdown": "h".repeat(5000) })');
    assert.deepEqual([displays[0].data, displays[0].size_bytes], [{}, 5000]);
    assert.match(displays[0].path, /^output\/display-\d+\.md$/);
  });

  const pages = [
    ['<b>short</b>', '<b>short</b>', ''],
    ['<script>draw()</script>', undefined, ''],
    [
      `<style>${' '.repeat(1000)}</style><!-- no --><h1>Fish &amp; chips</h1><p>a<br>b &#8364;</p>` +
        '<table><caption>Sums</caption><tr><th>name<th>n</tr><tr><td><div>x</div> y</td><td>1000</td></tr><tr><td></td><td>2</td></tr></table>after',
      undefined,
      'Fish & chips\na\nb €\nSums\nname  n\nx y   1000\n      2\nafter\n',
    ],
  ];
  for (const [page, data, printed] of pages) {
    test(`a page: ${page.replace(/\s+/g, ' ').slice(0, 30)}`, async () => {
      const { done, displays } = await shown(`display({ 'text/html': ${JSON.stringify(page)} })`);
      assert.deepEqual([displays[0].data['text/html'], done.stdout.head], [data, printed]);
      if (data === undefined) assert.equal(readFileSync(join(client.workDir, displays[0].path), 'utf8'), page);
    });
  }

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
