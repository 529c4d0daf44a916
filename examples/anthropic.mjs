// Claude's tool use loop, by the SDK's own runner. Claude sees the figures that its code draws.
//
//   npm install && export ANTHROPIC_API_KEY=…
//   node anthropic.mjs ["What to do"]
//
// Another model: ANTHROPIC_MODEL. Another endpoint: ANTHROPIC_BASE_URL.
import Anthropic from '@anthropic-ai/sdk'
import { mcpTools } from '@anthropic-ai/sdk/helpers/beta/mcp'
import { connect, prompt } from './sandbox.mjs'

const sandbox = await connect()
const { tools } = await sandbox.listTools()
const answer = await new Anthropic().beta.messages.toolRunner({
  model: process.env.ANTHROPIC_MODEL ?? 'claude-sonnet-5-5',
  max_tokens: 16_000,
  max_iterations: 20,
  tools: mcpTools(tools, sandbox),
  messages: [{ role: 'user', content: prompt }],
})
console.log(answer.content.filter(block => block.type === 'text').map(block => block.text).join('\n'))
await sandbox.close()
