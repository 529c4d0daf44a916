// The Gemini SDK calls the sandbox's tools by itself (automatic function calling over MCP).
//
//   npm install && export GEMINI_API_KEY=…
//   node gemini.mjs ["What to do"]
//
// Another model: GEMINI_MODEL. Another endpoint: GOOGLE_GEMINI_BASE_URL.
import { GoogleGenAI, mcpToTool } from '@google/genai'
import { connect, prompt } from './sandbox.mjs'

// The SDK gives a tool's answer to the model as JSON: a figure would be a long text in it.
const sandbox = await connect(['--images', 'path'])
const { text } = await new GoogleGenAI({}).models.generateContent({
  model: process.env.GEMINI_MODEL ?? 'gemini-flash-latest',
  contents: prompt,
  config: { tools: [mcpToTool(sandbox)], automaticFunctionCalling: { maximumRemoteCalls: 20 } },
})
console.log(text)
await sandbox.close()
