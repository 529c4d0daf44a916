// Calls the server as n8n's MCP Client Tool does (version 1.4 of the node), and fails where it would not be served.
// MCP_URL and MCP_TOKEN say where the server is.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url) // n8n is in CommonJS, and so alone its packages work together
const { Client } = require('@modelcontextprotocol/sdk/client/index.js')
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js')
const { CallToolResultSchema } = require('@modelcontextprotocol/sdk/types.js')
const { jsonSchemaToZod } = require('@n8n/json-schema-to-zod')
const { ZodObject } = require('zod')

const { MCP_URL: url, MCP_TOKEN: token } = process.env
const problems = []

/** Connects for one execution of a workflow. */
async function connect(credential = token) {
  const client = new Client({ name: '@n8n/n8n-nodes-langchain.mcpClientTool', version: '1.4' }, { capabilities: {} })
  const authorized = (address, init) => {
    const headers = new Headers(init?.headers)
    headers.set('Authorization', `Bearer ${credential}`)
    return fetch(address, { ...init, headers })
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), {
    fetch: authorized, requestInit: { signal: new AbortController().signal },
  }))
  client.onerror = error => problems.push(String(error)) // which n8n ends the session on
  return client
}

async function allTools(client, cursor) {
  const { tools, nextCursor } = await client.listTools({ cursor })
  return nextCursor ? [...tools, ...await allTools(client, nextCursor)] : tools
}

/** What a model is told of a call: only arguments that the schema has go on, and an error of a tool is the node's. */
async function call(client, tool, input, options) {
  const known = Object.fromEntries(Object.entries(input).filter(([name]) => name in tool.inputSchema.properties))
  const { content, isError } = await client.callTool({ name: tool.name, arguments: known }, CallToolResultSchema, { timeout: 60_000, ...options })
  if (isError) throw new Error(content.find(part => typeof part.text === 'string')?.text)
  return JSON.stringify([{ response: content }])
}

const client = await connect()
const tools = await allTools(client)
for (const { name, inputSchema } of tools) {
  assert.match(`MCP_Client_${name}`, /^[a-zA-Z0-9_-]{1,64}$/) // as a model knows it
  const schema = jsonSchemaToZod(inputSchema)
  assert.ok(schema instanceof ZodObject, `${name} takes no object`)
  const optional = Object.keys(schema.shape).filter(key => schema.shape[key].isOptional())
  assert.deepEqual(new Set([...optional, ...inputSchema.required ?? []]), new Set(Object.keys(inputSchema.properties)))
}
const python = tools.find(tool => tool.name === 'run_python_code')
const run = (code, options) => call(client, python, { code, id: 'call', toolCallId: 'call' }, options)
assert.deepEqual(jsonSchemaToZod(python.inputSchema).parse({ code: '1', limits: { cpus: 1 } }), { code: '1', limits: { cpus: 1 } })

await run('x = 41')
assert.match(await run('x + 1'), /\[result\]\\n42"/)
assert.match(await run('1/0'), /ZeroDivisionError/)
await assert.rejects(call(client, python, { code: '1', session_id: '../x' }), /^Error: invalid_session_id: .*\nHint: /)
const figure = await run("from PIL import Image; Image.new('RGB', (9, 9)).show()")
assert.match(figure, /\[shown\]\\noutput\/image-1\.png/)
assert.ok(!figure.includes('iVBORw0KGgo'), 'a figure is text')

// A call that is cancelled with its workflow is interrupted, and the variables stay.
const cancel = new AbortController()
const endless = run("open('began', 'w').close()\nwhile True: pass", { signal: cancel.signal })
const files = tools.find(tool => tool.name === 'list_artifacts')
while (!/began/.test(await call(client, files, {})));
cancel.abort()
await assert.rejects(endless, /AbortError/)
assert.match(await run('x'), /\[result\]\\n41"/)
await assert.rejects(run('while True: pass', { timeout: 500 }), { code: -32001 })
// One that takes longer than the node waits goes on, and the next answer names it.
const waiter = tools.find(tool => tool.name === 'wait_for_run')
let late
while (!late) late = /run_id (run-\w+), which this client did not wait for/.exec(await call(client, files, {})) // its cancel may come later
if (waiter) await call(client, waiter, { run_id: late[1], cancel: true }) // or it ends at its own time
while (!/\[result\]\\n41"/.test(await run('x')));

// The next execution has a session of its own. None is ended, but closed.
const next = await connect()
assert.match(await call(next, python, { code: 'x' }), /NameError/)
assert.deepEqual(problems, [])
await next.close()
await client.close()

await assert.rejects(connect(`not-${token}`), { code: 401 })
console.log('ok')
