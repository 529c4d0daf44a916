// The tools of other servers, as functions: what is sent, what becomes of results, and of calls when their run ends.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { after, describe, mock, test } from 'node:test';
import { inspect } from 'node:util';

const { tools, ToolError } = createRequire(import.meta.url)('../../lib/node/sandbox.js');
const { request } = http;

const SCHEMA = {
  properties: {
    repo: { type: 'string', description: 'Which\none.' },
    state: { enum: ['open', 'closed'] },
    'odd-name': { type: 'array', items: { type: ['string', 'null'] } },
    from: { anyOf: [{ type: 'number' }, { type: 'object' }] },
  },
  required: ['repo'],
};
const LISTED = [
  { name: 'list_issues', attribute: 'list_issues', description: 'Lists issues.\nAll of them.', input: SCHEMA, allowed: true },
  { name: 'do-it', attribute: 'do_it', allowed: false },
];

let answer;
let asked;
const server = http.createServer(async (incoming, outgoing) => {
  const body = Buffer.concat(await incoming.toArray()).toString();
  asked = body === '' ? incoming.url : JSON.parse(body);
  if (answer === 'never') return server.emit('called', incoming.socket);
  if (answer === null) outgoing.statusCode = 404;
  const told = incoming.url === '/tools/servers' ? { servers: [{ name: 'my-server', attribute: 'my_server' }] } : answer;
  outgoing.end(JSON.stringify(told));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address();
mock.method(http, 'request', (options, onAnswer) => request({ ...options, port }, onAnswer));
after(() => server.close());

const fails = (error) => (e) => {
  assert.ok(e instanceof ToolError);
  assert.deepEqual({ ...e }, { code: 'tool_failed', hint: '', server: 'my_server', tool: 'do_it', ...error, name: 'ToolError' });
  return true;
};

test('a call is sent by its names', async () => {
  answer = { result: { content: [] } };
  assert.equal(await tools.my_server.do_it(), null);
  assert.deepEqual(asked, { server: 'my_server', tool: 'do_it', arguments: {} });
  await tools['my-server']['do-it']({ n: [1.5, null] });
  assert.deepEqual(asked, { server: 'my-server', tool: 'do-it', arguments: { n: [1.5, null] } });
});

test('values go by their obvious form, or an error names the argument', async () => {
  answer = { result: { content: [] } };
  await tools.my_server.do_it({ m: new Map([['a', new Set([1])]]), f: new Float64Array([0.5]), d: new Date(0), n: undefined, o: { f() {} }, e: new Error('no') });
  assert.deepEqual(asked.arguments, { m: { a: [1] }, f: [0.5], d: '1970-01-01T00:00:00.000Z', o: {}, e: 'Error: no' });
  const circle = {};
  circle.circle = circle;
  for (const [value, said] of [[Buffer.from('x'), /base64/], [[NaN], /NaN/], [new Date(NaN), /date/], [Promise.resolve(1), /await/], [() => 1, /function/], [circle, /circular/i]]) {
    const wanted = (e) => e instanceof ToolError && e.code === 'invalid_argument' && e.tool === 'do_it' && /^The argument 'rows'/.test(e.message) && said.test(e.message);
    await assert.rejects(tools.my_server.do_it({ rows: value }), wanted);
  }
  await assert.rejects(tools.my_server.do_it(['x']), { code: 'invalid_argument' });
});

test('the objects have nothing but functions', async () => {
  assert.equal(await tools, tools);
  assert.equal((await tools.my_server).then, undefined);
  assert.match(inspect(tools), /search/);
  assert.doesNotThrow(() => inspect(tools.my_server));
});

describe('a result is', () => {
  const text = { type: 'text', text: '{"a": 1}' };
  const results = [
    { name: 'a text', result: { content: [text] }, want: text.text },
    { name: 'what a text says that was promised', result: { content: [text] }, structured: true, want: { a: 1 } },
    { name: 'a text that breaks the promise', result: { content: [{ type: 'text', text: 'x' }] }, structured: true, want: 'x' },
    { name: 'an object', result: { content: [text], structuredContent: { b: [1] } }, want: { b: [1] } },
    { name: 'a list', result: { content: [text, { type: 'resource', resource: { text: 't' } }] }, want: [text.text, 't'] },
    { name: 'a link', result: { content: [{ type: 'resource_link', name: 'n', uri: 'u:1' }] }, want: 'n u:1' },
    { name: 'nothing', result: { content: 'odd' }, want: null },
    { name: 'of a kind that is not known', result: { content: [{ type: 'new' }] }, want: '{"type":"new"}' },
  ];
  for (const { name, result, structured = false, want } of results) {
    test(name, async () => {
      answer = { structured, result };
      assert.deepEqual(await tools.my_server.do_it(), want);
    });
  }
  test('a file', async (t) => {
    const files = [];
    t.mock.method(fs, 'mkdirSync', () => {});
    t.mock.method(fs, 'writeFileSync', (file, data, { flag }) => {
      assert.equal(flag, 'wx');
      if (files.includes(file)) throw Object.assign(new Error('there'), { code: 'EEXIST' });
      files.push(file);
      assert.equal(String(data), 'PNG');
    });
    const image = { type: 'image', data: Buffer.from('PNG').toString('base64'), mimeType: 'image/png' };
    answer = { result: { content: [image, { ...image, mimeType: '../../x' }, image] } };
    const folder = '/mnt/data/output/tools/';
    assert.deepEqual(await tools.my_server['../do it'](), [`${folder}_do_it-1.png`, `${folder}_do_it-1.bin`, `${folder}_do_it-2.png`]);
  });
});

describe('a failure tells', () => {
  test('what the tool says', async () => {
    answer = { result: { isError: true, content: [{ type: 'text', text: 'no such repo' }] } };
    await assert.rejects(tools.my_server.do_it(), fails({}));
    await assert.rejects(tools.my_server.do_it(), /no such repo/);
  });
  test('what the server refuses', async () => {
    answer = { error: { code: 'tool_refused', message: 'm', hint: 'h', server: 'my_server', tool: 'do_it' } };
    await assert.rejects(tools.my_server.do_it(), fails({ code: 'tool_refused', hint: 'h' }));
  });
  test('that there are none', async () => {
    answer = null;
    await assert.rejects(tools.my_server.do_it(), /no tools of others/);
  });
});

test('what there is', async () => {
  answer = { tools: LISTED };
  const all = inspect(await tools.describe('my_server'));
  assert.equal(
    all,
    'tools.my_server.list_issues({ repo: string, state?: "open" | "closed", "odd-name"?: (string | null)[], from?: number | object })\n' +
      '    Lists issues.\ntools.my_server.do_it()  // may not be called',
  );
  assert.match(String(await tools.describe('my-server', 'list_issues')), /All of them\.\n {4}repo: Which one\./);
  assert.equal(String(await tools.describe()), 'tools.my_server');
  answer = { tools: [{ server: 'my-server', server_attribute: 'my_server', tool: '9', allowed: true }] };
  assert.deepEqual(await tools.search('a&b'), [{ call: 'tools.my_server["9"]', description: '', allowed: true }]);
  assert.equal(asked, '/tools/search?q=a%26b');
});

test('a call ends with its run', async (t) => {
  const started = Symbol.for('code-sandbox-mcp.started');
  let end;
  Object.defineProperty(process, started, { value: (_, event, ending) => { end = ending; }, configurable: true });
  t.after(() => delete process[started]);
  answer = 'never';
  const called = once(server, 'called');
  let settled = false;
  tools.my_server.do_it().finally(() => { settled = true; });
  const [socket] = await called;
  end();
  await once(socket, 'close');
  assert.equal(settled, false);
});
