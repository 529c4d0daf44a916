// Drives the server with the official TypeScript clients, and fails where one of them is not served.
// Usage: node typescript.mjs PROGRAM STATE_DIR legacy|modern
//        node typescript.mjs URL TOKEN legacy|modern
import assert from 'node:assert/strict'

const [target, credential, era] = process.argv.slice(2)
const overHTTP = target.startsWith('http')

/** The client of the older era is the SDK that most clients are built on; the newer one has a package of its own. */
async function library() {
  if (era === 'modern') {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, options: { versionNegotiation: { mode: { pin: '2026-07-28' } } } }
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js')
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  return { Client, StdioClientTransport, StreamableHTTPClientTransport, options: {} }
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport, options } = await library()
const client = new Client({ name: 'e2e', version: '1' }, options)
const problems = []
client.onerror = error => problems.push(String(error))
// No environment is given: the transport passes on what it takes to be safe, as it does everywhere.
const transport = overHTTP
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${credential}` } } })
  : new StdioClientTransport({ command: target, args: ['--state-dir', credential, '--structured-content'], stderr: 'ignore' })
await client.connect(transport)

/** A model names the session that an answer tells it to. Nothing else tells the newer client over HTTP from others. */
let session
/** The newer client takes options second, the older one third, behind a schema. */
async function call(name, args, requestOptions) {
  const params = { name, arguments: session ? { session_id: session, ...args } : args }
  const result = await (era === 'modern' ? client.callTool(params, requestOptions) : client.callTool(params, undefined, requestOptions))
  session ??= /session_id "(\S+)" goes on with it/.exec(text(result))?.[1]
  return result
}
const text = result => result.content.map(c => c.text ?? '').join('\n')

assert.equal(client.getServerVersion().name, 'code-sandbox-mcp')
const { tools } = await client.listTools()
assert.ok(tools.some(tool => tool.name === 'run_python_code'))
const { resources } = await client.listResources()
assert.ok(resources.length >= 2)
const usage = await client.readResource({ uri: 'sandbox://usage' })
assert.match(usage.contents[0].text, /run_js_code/)

await call('run_python_code', { code: 'x = 41' })
assert.match(text(await call('run_python_code', { code: 'x + 1' })), /\[result\]\n42/)
assert.match(text(await call('run_js_code', { code: 'const y: number = 6; y * 7' })), /42/)

const figure = await call('run_python_code', { code: 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()' })
assert.equal(figure.content.find(c => c.type === 'image')?.mimeType, 'image/png')

const refused = await call('run_python_code', { code: '1', session_id: '../x' })
assert.equal(refused.isError, true)
assert.match(text(refused), /^invalid_session_id: .*\nHint: /)

// These clients check an answer's fields against the tool's schema.
await call('upload_file', { filename: 'a.txt', text: 'a' })
for (const [name, args] of Object.entries({
  run_bash: { code: 'ls' }, list_artifacts: { glob: '**' }, read_artifact: { path: 'input/a.txt' }, session_info: { packages: true }, list_sessions: {}
})) {
  const answer = await call(name, args)
  assert.ok(!answer.isError && answer.structuredContent, text(answer))
}

// Progress is spaced so that the last of it does not share a chunk with the answer: this client would
// lose it then.
const progress = []
await call('run_python_code', { code: "import time\nfor i in range(3):\n  print('step', i, flush=True)\n  time.sleep(1.1)" },
  { onprogress: p => progress.push(p.progress) })
assert.ok(progress.length >= 1, 'no progress')
assert.deepEqual(progress, progress.toSorted((a, b) => a - b))

// An aborted request interrupts its code, and the variables stay.
const abort = new AbortController()
let running
const started = new Promise(resolve => { running = resolve })
const endless = call('run_python_code', { code: "print('on', flush=True)\nwhile True: pass" }, { signal: abort.signal, onprogress: running })
await started
abort.abort('enough')
await assert.rejects(endless)
assert.match(text(await call('run_python_code', { code: 'x' })), /41/)

if (overHTTP && era === 'legacy') await transport.terminateSession()
await client.close()
assert.deepEqual(problems, [])
console.log('ok')
