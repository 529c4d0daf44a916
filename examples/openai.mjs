// The OpenAI SDK's loop of function calls, with OpenAI, Azure OpenAI, or any other server of chat completions.
//
//   npm install && export OPENAI_API_KEY=…
//   node openai.mjs ["What to do"]
//
// Another model: OPENAI_MODEL. Another endpoint, such as a local one: OPENAI_BASE_URL.
// Azure: AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY, AZURE_OPENAI_DEPLOYMENT and OPENAI_API_VERSION.
import OpenAI, { AzureOpenAI } from 'openai'
import { connect, prompt } from './sandbox.mjs'

const { AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_DEPLOYMENT: deployment, OPENAI_MODEL = 'gpt-5' } = process.env
const openai = AZURE_OPENAI_ENDPOINT ? new AzureOpenAI({ deployment }) : new OpenAI()

// The answer of a function is text. Of figures the model is told the path.
const sandbox = await connect(['--images', 'path'])
const { tools } = await sandbox.listTools()

// An error is told in the same way, and is the model's to mend.
async function call(name, input) {
  const { content } = await sandbox.callTool({ name, arguments: input })
  return content.filter(part => part.type === 'text').map(part => part.text).join('\n')
}

const runner = openai.chat.completions.runTools({
  model: deployment ?? OPENAI_MODEL,
  messages: [{ role: 'user', content: prompt }],
  tools: tools.map(({ name, description, inputSchema: parameters }) => ({
    type: 'function',
    function: { name, description, parameters, parse: JSON.parse, function: input => call(name, input) },
  })),
}, { maxChatCompletions: 20 })
console.log(await runner.finalContent())
await sandbox.close()
