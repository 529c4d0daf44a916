// The AI SDK's loop of tool calls, with OpenAI. With another provider's package it is the same.
//
//   npm install && export OPENAI_API_KEY=…
//   node ai-sdk.mjs ["What to do"]
//
// Another model: OPENAI_MODEL. Another endpoint of the Responses API: OPENAI_BASE_URL.
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio'
import { openai } from '@ai-sdk/openai'
import { generateText, isStepCount } from 'ai'
import { args, command, headers, prompt, url } from './sandbox.mjs'

const sandbox = await createMCPClient({
  // A name of one's own has figures shown to the model, and over HTTP a session of its own. Leave it out with a provider
  // that makes text of images, as all do that speak OpenAI's chat completions.
  clientName: `example ${process.pid}`,
  transport: url ? { type: 'http', url, headers } : new StdioMCPTransport({ command, args }),
})
try {
  const { text } = await generateText({
    model: openai(process.env.OPENAI_MODEL ?? 'gpt-5'),
    tools: await sandbox.tools(),
    stopWhen: isStepCount(20),
    prompt,
  })
  console.log(text)
} finally {
  await sandbox.close()
}
