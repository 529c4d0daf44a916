// Tools of the MCP servers that the user has named, as functions: `import { tools } from 'sandbox'`.
//
//     await tools.search('issue');       // what there is
//     await tools.describe('github');    // the functions of a server, with their arguments
//     const issues = await tools.github.list_issues({ repo: 'octo/demo' });
//
// The calls go to the server of this sandbox, which makes them. No key and no connection is in the container.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { inspect, types } = require('node:util');

const PORT = Number(process.env.CODE_SANDBOX_WAY_OUT ?? 9797);
const FOLDER = '/mnt/data/output/tools';

// In a cell the kernel ends what is pending when the run is interrupted. Another program's requests end with it.
const STARTED = Symbol.for('code-sandbox-mcp.started');

/** ToolError is a call that was refused or has failed. `code` is the kind of failure, `server` and `tool` what was called. */
class ToolError extends Error {
  constructor({ code, message, hint = '', server = '', tool = '' }) {
    super(hint ? `${message}\nHint: ${hint}` : message);
    this.name = 'ToolError';
    Object.assign(this, { code, hint, server, tool });
  }
}

/** search returns the tools whose names or descriptions have words of the query, the best first. */
async function search(query = '') {
  const { tools: hits, problems } = await ask('GET', `search?q=${encodeURIComponent(query)}`);
  for (const { server, message } of problems ?? []) console.error(`note: ${server}: ${message}`);
  return (hits ?? []).map((hit) => ({
    call: `tools${access(hit.server, hit.server_attribute)}${access(hit.tool, hit.attribute)}`,
    description: hit.description ?? '',
    allowed: hit.allowed,
  }));
}

/** describe returns the functions of a server, or one of them whole, as text; without a server the names of all. */
async function describe(server, tool) {
  const { servers } = await ask('GET', 'servers');
  if (server === undefined) return new Text(servers.map(({ name, attribute }) => `tools${access(name, attribute)}`).sort().join('\n'));
  const of = servers.find(({ name, attribute }) => server === name || server === attribute);
  const { tools: listed } = await ask('GET', `list?server=${encodeURIComponent(of?.name ?? server)}`);
  const shown = listed.filter(({ name, attribute }) => tool === undefined || tool === name || tool === attribute);
  if (shown.length === 0) throw new ToolError({ code: 'not_found', message: `${server} has no tool ${tool ?? ''}`.trim(), server, tool });
  const before = `tools${access(of.name, of.attribute)}`;
  return new Text(shown.map((t) => describeTool(before, t, tool !== undefined)).join('\n'));
}

/** Text is a text that a cell shows as it is. */
class Text extends String {
  [inspect.custom]() {
    return String(this);
  }
}

/** access is how a server or a tool is reached from what has it. */
const access = (name, attribute) => (attribute ? `.${attribute}` : `[${JSON.stringify(name)}]`);

// Proxies ----------------------------------------------------------------------------

const OWN = { search, describe };

const tools = new Proxy(OWN, {
  get(_, name) {
    if (typeof name !== 'string' || name in Object.prototype || name === 'then' || name === 'toJSON') return OWN[name];
    return Object.hasOwn(OWN, name) ? OWN[name] : serverOf(name);
  },
});

/** serverOf has the tools of a server as its functions. Names are looked up by the server of this sandbox when they are called. */
function serverOf(server) {
  return new Proxy(Object.create(null), {
    get(_, name) {
      if (typeof name !== 'string' || name === 'then' || name === 'toJSON') return undefined;
      return async (args = {}) => call(server, name, args);
    },
  });
}

async function call(server, tool, args) {
  if (!isObject(args)) throw refused(server, tool, 'Arguments are an object, by their names', '{ name: value }');
  const parts = Object.entries(args).map(([name, value]) => {
    try {
      const json = JSON.stringify(value, plain);
      if (json === undefined && value !== undefined) throw new TypeError(`JSON has no form for a ${typeof value}`);
      return json && `${JSON.stringify(name)}: ${json}`;
    } catch (error) {
      throw refused(server, tool, `The argument '${name}' cannot be sent: ${String(error.message).slice(0, 500)}`, 'Hand over text, numbers, arrays, objects, or what has such a form.');
    }
  });
  const head = JSON.stringify({ server, tool }).slice(0, -1);
  const answer = await ask('POST', 'call', `${head}, "arguments": {${parts.filter(Boolean)}}}`);
  return resultOf(answer.result, answer.structured, server, tool);
}

const refused = (server, tool, message, hint) => new ToolError({ code: 'invalid_argument', message, hint, server, tool });

/** plain is what JSON has of a value that it would leave out, round, or make an empty object of. */
function plain(key, value) {
  const given = this[key]; // before its toJSON
  if (typeof value === 'bigint') return JSON.rawJSON?.(String(value)) ?? String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`JSON has no ${value}`);
  if (given === null || typeof given !== 'object') return value;
  if (types.isUint8Array(given) || types.isAnyArrayBuffer(given)) throw new TypeError("JSON has no bytes: .toString() makes text of a Buffer, and .toString('base64') what most tools take for a file");
  if (types.isMap(given)) return Object.fromEntries(given);
  if (types.isSet(given) || ArrayBuffer.isView(given)) return Array.from(given);
  if (types.isDate(given) && value === null) throw new TypeError('it is no date');
  if (types.isPromise(given)) throw new TypeError('it is a promise: await it');
  if (types.isNativeError(given)) return String(given);
  return value;
}

// Results ----------------------------------------------------------------------------

function resultOf(result, structured, server, tool) {
  const contents = Array.isArray(result.content) ? result.content.filter((c) => c !== null && typeof c === 'object') : [];
  if (result.isError) {
    const said = contents.map((c) => contentOf(c, tool)).join('\n');
    throw new ToolError({ code: 'tool_failed', message: said || 'the tool has failed', server, tool });
  }
  if (result.structuredContent !== undefined && result.structuredContent !== null) {
    for (const content of contents) {
      if (content.type === 'image' || content.type === 'audio') console.error(`note: saved ${contentOf(content, tool)}`);
    }
    return result.structuredContent;
  }
  const values = contents.map((c) => contentOf(c, tool));
  if (values.length !== 1) return values.length === 0 ? null : values;
  if (structured && typeof values[0] === 'string') {
    try {
      return JSON.parse(values[0]);
    } catch {
      return values[0];
    }
  }
  return values[0];
}

/** contentOf is one content: a text, or the path of the file that it was saved to. */
function contentOf(content, tool) {
  const { resource } = content;
  switch (content.type) {
    case 'text':
      return String(content.text ?? '');
    case 'image':
    case 'audio':
      return save(content.data, content.mimeType, tool);
    case 'resource_link':
      return [content.title, content.name, content.uri].filter(Boolean).join(' ');
    case 'resource':
      if (typeof resource?.text === 'string') return resource.text;
      if (typeof resource?.blob === 'string') return save(resource.blob, resource.mimeType, tool);
  }
  return JSON.stringify(content);
}

const ENDINGS = { 'image/jpeg': '.jpg', 'image/svg+xml': '.svg', 'audio/mpeg': '.mp3', 'text/plain': '.txt' };

function save(data, mime, tool) {
  fs.mkdirSync(FOLDER, { recursive: true });
  const stem = tool.replace(/[^\w-]+/g, '_').slice(0, 60) || 'tool';
  const ending = ENDINGS[mime] ?? (/^[\w-]+\/[\w]{1,10}$/.test(mime) ? `.${mime.split('/')[1]}` : '.bin');
  for (let number = 1; ; number++) {
    const file = path.join(FOLDER, `${stem}-${number}${ending}`);
    try {
      fs.writeFileSync(file, Buffer.from(String(data ?? ''), 'base64'), { flag: 'wx' });
      return file;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
  }
}

// Descriptions -------------------------------------------------------------------------

function describeTool(before, tool, whole) {
  const properties = isObject(tool.input?.properties) ? tool.input.properties : {};
  const needed = Array.isArray(tool.input?.required) ? tool.input.required : [];
  const fields = Object.entries(properties).map(([name, schema]) => `${quoted(name)}${needed.includes(name) ? '' : '?'}: ${typeOf(schema)}`);
  const signature = `${before}${access(tool.name, tool.attribute)}(${fields.length > 0 ? `{ ${fields.join(', ')} }` : ''})`;
  const refused = tool.allowed ? '' : '  // may not be called';
  const about = (tool.description ?? '').trim();
  if (!whole) return [signature + refused, about && `    ${about.split('\n')[0]}`].filter(Boolean).join('\n');
  const words = Object.entries(properties).filter(([, schema]) => typeof schema?.description === 'string');
  return [signature + refused, about, ...words.map(([name, schema]) => `    ${name}: ${schema.description.replace(/\s+/g, ' ')}`)].filter(Boolean).join('\n');
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const quoted = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const TYPES = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', object: 'object', null: 'null', array: 'unknown[]' };

/** typeOf is a JSON schema as TypeScript writes types, in few words. */
function typeOf(schema, depth = 0) {
  if (!isObject(schema) || depth > 3) return 'unknown';
  if (Array.isArray(schema.enum) && schema.enum.length > 0 && schema.enum.length <= 12) return schema.enum.map((c) => JSON.stringify(c)).join(' | ');
  for (const choices of [schema.anyOf, schema.oneOf]) {
    if (Array.isArray(choices) && choices.length > 0) return [...new Set(choices.slice(0, 8).map((s) => typeOf(s, depth + 1)))].join(' | ');
  }
  if (Array.isArray(schema.type)) return [...new Set(schema.type.slice(0, 8).map((type) => typeOf({ ...schema, type }, depth + 1)))].join(' | ') || 'unknown';
  if (schema.type === 'array' && isObject(schema.items)) {
    const item = typeOf(schema.items, depth + 1);
    return item.includes(' ') ? `(${item})[]` : `${item}[]`;
  }
  return Object.hasOwn(TYPES, schema.type) ? TYPES[schema.type] : 'unknown';
}

// Requests ------------------------------------------------------------------------------

/** request gets {status, body} from the server of this sandbox. */
function request(method, address, body) {
  return new Promise((resolve, reject) => {
    // Code that awaits an answer is not to go on after its interrupt: it gets neither that nor an error.
    let ended = false;
    const fail = (error) => ended || reject(error);
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const sent = http.request({ host: '127.0.0.1', port: PORT, path: address, method, headers, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', fail);
      answer.on('end', () => ended || resolve({ status: answer.statusCode, body: Buffer.concat(parts) }));
    });
    sent.on('error', fail);
    process[STARTED]?.(sent, 'close', () => {
      ended = true;
      sent.destroy();
    });
    sent.end(body);
  });
}

async function ask(method, what, body) {
  const answer = await request(method, `/tools/${what}`, body).catch((error) => {
    throw new ToolError({ code: 'tool_failed', message: `The server cannot be reached: ${error.message}`, hint: 'Try again.' });
  });
  if (answer.status !== 200) throw new ToolError({ code: 'not_found', message: 'This server has no tools of others.', hint: 'Its user can add some, see docs/tools-from-code.md.' });
  const told = JSON.parse(answer.body.toString('utf8'));
  if (told.error) throw new ToolError(told.error);
  return told;
}

module.exports = { STARTED, isObject, request, tools, ToolError };
