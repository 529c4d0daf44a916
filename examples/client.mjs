// The official JavaScript SDK of MCP: runs Python, draws a figure, goes on with the same file in JavaScript.
//
//   npm install && node client.mjs
import { writeFileSync } from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const client = new Client({ name: 'my-client', version: '1' })
await client.connect(new StdioClientTransport({ command: 'code-sandbox-mcp', args: ['--log-level', 'warn'] }))

async function run(tool, code) {
  const { content } = await client.callTool({ name: tool, arguments: { code } })
  console.log(content[0].text)
  return content
}

await run('run_python_code', 'squares = [n * n for n in range(10)]; sum(squares)')

// The variable is still there. A figure comes back as an image, beside the text.
const content = await run('run_python_code', `
import json, matplotlib.pyplot as plt
json.dump(squares, open("squares.json", "w"))
plt.plot(squares, "o-"); plt.title("squares"); plt.show()`)
writeFileSync('squares.png', Buffer.from(content.find(part => part.type === 'image').data, 'base64'))

await run('run_js_code', 'const list: number[] = require("./squares.json"); Math.max(...list)')

await client.close()
