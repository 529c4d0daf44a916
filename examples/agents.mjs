// An agent of the OpenAI Agents SDK, whose model sees the figures that its code draws.
//
//   npm install && export OPENAI_API_KEY=…
//   node agents.mjs ["What to do"]
//
// Another model: OPENAI_MODEL. Another endpoint of the Responses API: OPENAI_BASE_URL.
import { Agent, MCPServerStdio, MCPServerStreamableHttp, run, setTracingDisabled } from '@openai/agents'
import { args, command, headers, prompt, url } from './sandbox.mjs'

setTracingDisabled(true) // else what the code prints goes to OpenAI's traces, too
// Over HTTP clients of one name on one machine share a session: give yours a name of its own.
const sandbox = url
  ? new MCPServerStreamableHttp({ name: `example ${process.pid}`, url, requestInit: { headers } })
  : new MCPServerStdio({ name: 'example', command, args })
await sandbox.connect()
try {
  const agent = new Agent({ name: 'Analyst', model: process.env.OPENAI_MODEL ?? 'gpt-5', mcpServers: [sandbox] })
  const { finalOutput } = await run(agent, prompt, { maxTurns: 20 })
  console.log(finalOutput)
} finally {
  await sandbox.close()
}
