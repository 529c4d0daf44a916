// Drives the server with the AI SDK over HTTP, and fails where it is not served.
// It runs with the packages of the examples; MCP_URL and MCP_TOKEN say where the server is.
import assert from 'node:assert/strict'
import { createMCPClient } from '@ai-sdk/mcp'
import { generateText, isStepCount } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'

const { MCP_URL: url, MCP_TOKEN: token } = process.env
const connect = ({ credential = token, ...options } = {}) =>
  createMCPClient({ transport: { type: 'http', url, headers: { Authorization: `Bearer ${credential}`, 'X-Session-Id': 'e2e-ai-sdk' } }, ...options })

/** Lets a model call run_python_code with each of these in turn, and returns what it is told. */
async function loop(tools, ...calls) {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
  const model = new MockLanguageModelV4({
    doGenerate: async () => {
      const next = calls.shift()
      return {
        usage, warnings: [], finishReason: { unified: next ? 'tool-calls' : 'stop' },
        content: [next
          ? { type: 'tool-call', toolCallId: `call${calls.length}`, toolName: 'run_python_code', input: JSON.stringify(next) }
          : { type: 'text', text: 'done' }],
      }
    },
  })
  const { text } = await generateText({ model, tools, stopWhen: isStepCount(20), prompt: 'Go' })
  assert.equal(text, 'done')
  return model.doGenerateCalls.at(-1).prompt.filter(message => message.role === 'tool').map(message => message.content[0].output.value)
}

const draw = { code: "from PIL import Image; Image.new('RGB', (9, 9)).show()" }

// In the protocol of either era, and under a name that figures are shown to.
for (const protocolVersionDiscovery of [true, false]) {
  const sandbox = await connect({ clientName: 'e2e', protocolVersionDiscovery })
  const tools = await sandbox.tools()
  assert.ok(tools.run_python_code && tools.session_info)
  const [, state, raised, refused, figure] = await loop(tools,
    { code: 'x = 41' }, { code: 'x + 1' }, { code: '1/0' }, { code: '1', session_id: '../x' }, draw)
  assert.match(state[0].text, /\[result\]\n42$/)
  assert.match(raised[0].text, /^ZeroDivisionError/)
  assert.match(refused[0].text, /^invalid_session_id: .*\nHint: /)
  assert.equal(figure[1].mediaType, 'image/png')
  assert.match(figure[1].data.data, /^iVBORw0KGgo/)
  await sandbox.close()
}

// Under its own name the SDK gets the path of the figure: what many providers make of it is text.
const sandbox = await connect()
const tools = await sandbox.tools()
const [[place, ...rest]] = await loop(tools, draw)
assert.match(place.text, /\[shown\]\noutput\/image-\d\.png/)
assert.deepEqual(rest, [])

// A call that is aborted is interrupted, and the variables stay.
const run = async (name, input, abortSignal) => {
  const { content } = await tools[name].execute(input, { toolCallId: 'call', messages: [], abortSignal })
  return content[0].text
}
await run('run_python_code', { code: 'x = 41' })
const abort = new AbortController()
const endless = run('run_python_code', { code: "open('began', 'w').close()\nwhile True: pass" }, abort.signal)
while (!/began/.test(await run('list_artifacts', {})));
abort.abort()
await assert.rejects(endless, /abort/)
assert.match(await run('run_python_code', { code: 'x' }), /\[result\]\n41$/)
await sandbox.close()

await assert.rejects(connect({ credential: `not-${token}` }), /HTTP 401.*Bearer/)
console.log('ok')
