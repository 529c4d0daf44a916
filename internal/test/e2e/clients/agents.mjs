// Drives the server with the OpenAI Agents SDK over HTTP, and fails where it is not served.
// It runs with the packages of the examples; MCP_URL and MCP_TOKEN say where the server is.
import assert from 'node:assert/strict'
import { Agent, getAllMcpTools, MCPServerStreamableHttp, Runner, Usage } from '@openai/agents'

const { MCP_URL: url, MCP_TOKEN: token } = process.env

/** What has no handshake names its session. */
const connect = async ({ credential = token, ...options } = {}) => {
  const server = new MCPServerStreamableHttp({
    name: 'e2e', url, requestInit: { headers: { Authorization: `Bearer ${credential}`, 'X-Session-Id': 'e2e-agents' } }, ...options,
  })
  await server.connect()
  return server
}

/** A model that calls run_python_code with each of these in turn. What it is told at last is in `told`. */
class Scripted {
  constructor(...calls) { this.calls = calls }

  async getResponse({ input, tools }) {
    this.told = input
    this.tools = tools
    const next = this.calls.shift()
    const output = next
      ? { type: 'function_call', callId: `call${this.calls.length}`, name: 'run_python_code', arguments: JSON.stringify(next), status: 'completed' }
      : { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] }
    return { usage: new Usage(), output: [output] }
  }
}

const sandbox = await connect()
const tools = await sandbox.listTools()
assert.ok(tools.some(tool => tool.name === 'run_python_code'))

const nothing = { dependencies: null, fresh: null, limits: null, session_id: null, timeout_seconds: null } // as in strict mode
for (const strict of [false, true]) {
  const model = new Scripted(
    { code: 'x = 41', ...strict && nothing }, { code: 'x + 1' }, { code: '1/0' }, { code: '1', session_id: '../x' },
    { code: "from PIL import Image; Image.new('RGB', (9, 9)).show()" },
  )
  const agent = new Agent({ name: 'e2e', model, mcpServers: [sandbox], mcpConfig: { convertSchemasToStrict: strict } })
  const { finalOutput } = await new Runner({ tracingDisabled: true }).run(agent, 'Go')
  assert.equal(finalOutput, 'done')
  assert.equal(model.tools.find(tool => tool.name === 'run_python_code').strict, strict)
  const [, state, raised, refused, figure] = model.told.filter(item => item.type === 'function_call_result').map(item => item.output)
  assert.match(state[0].text, /\[result\]\n42$/)
  assert.match(raised[0].text, /^ZeroDivisionError/)
  assert.match(refused[0].text, /^invalid_session_id: .*\nHint: /)
  assert.match(figure[0].text, /\[shown\]\noutput\/image-\d\.png/)
  assert.match(figure[1].image, /^data:image\/png;base64,iVBORw0KGgo/)
}
assert.equal((await getAllMcpTools({ mcpServers: [sandbox] })).length, tools.length)

// A call that is aborted, and one that takes too long, are interrupted, and the variables stay.
const text = answer => answer.map(part => part.text).join('\n')
const abort = new AbortController()
const endless = sandbox.callTool('run_python_code', { code: "open('began', 'w').close()\nwhile True: pass" }, null, { signal: abort.signal })
while (!/began/.test(text(await sandbox.callTool('list_artifacts', {}))));
abort.abort(new Error('enough'))
await assert.rejects(endless, /enough/)
assert.match(text(await sandbox.callTool('run_python_code', { code: 'x' })), /\[result\]\n41$/)
const hasty = await connect({ timeout: 500 })
await assert.rejects(hasty.callTool('run_python_code', { code: 'while True: pass' }), { code: 'REQUEST_TIMEOUT' })
await hasty.close()
assert.match(text(await sandbox.callTool('run_python_code', { code: 'x' })), /\[result\]\n41$/)
await sandbox.close()

await assert.rejects(connect({ credential: `not-${token}` }), /401/)
console.log('ok')
