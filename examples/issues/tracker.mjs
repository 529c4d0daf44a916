// A small MCP server: an issue tracker with 300 issues, as any other that a client starts.
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const issues = Array.from({ length: 300 }, (_, i) => ({
  number: i + 1,
  title: `Issue ${i + 1}`,
  state: i % 3 === 0 ? 'closed' : 'open',
  days: (i * 37) % 400,
  comments: Array.from({ length: i % 5 }, () => 'The same happens here. '.repeat(20)),
}))

const number = { type: 'object', properties: { number: { type: 'integer', description: 'From 1 to 300.' } }, required: ['number'] }
const tools = [
  { name: 'list_issues', description: 'Lists the numbers of all issues.', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } },
  { name: 'get_issue', description: 'Gets an issue with its comments.', inputSchema: number, outputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
  { name: 'close-issue', description: 'Closes an issue.', inputSchema: number },
  { name: 'wait', description: 'Answers in an hour.', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } },
]

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] })
const calls = {
  list_issues: () => text(issues.map((issue) => issue.number).join(' ')),
  get_issue: ({ number: n }) => (issues[n - 1] ? { structuredContent: issues[n - 1], ...text(JSON.stringify(issues[n - 1])) } : { isError: true, ...text(`there is no issue ${n}`) }),
  'close-issue': ({ number: n }) => text((issues[n - 1].state = 'closed')),
  wait: (_, signal) => new Promise((resolve) => {
    console.error('waiting')
    const timer = setTimeout(() => resolve(text('done')), 3_600_000)
    signal.addEventListener('abort', () => { clearTimeout(timer); console.error('cancelled'); resolve(text('cancelled')) })
  }),
}

const server = new Server({ name: 'tracker', version: '1' }, { capabilities: { tools: {} } })
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }))
server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal }) => calls[params.name](params.arguments ?? {}, signal))
await server.connect(new StdioServerTransport())
