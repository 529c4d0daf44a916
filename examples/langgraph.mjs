// A graph of LangGraph, a model and the sandbox's tools in turn, by langchain-mcp-adapters.
//
//   npm install && export OPENAI_API_KEY=…
//   node langgraph.mjs ["What to do"]
//
// Another model: OPENAI_MODEL. Another endpoint: OPENAI_BASE_URL.
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ToolNode, toolsCondition } from '@langchain/langgraph/prebuilt'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { ChatOpenAI } from '@langchain/openai'
import { args, command, headers, prompt, url } from './sandbox.mjs'

const servers = new MultiServerMCPClient({
  mcpServers: { sandbox: url ? { transport: 'http', url, headers } : { transport: 'stdio', command, args: [...args, '--images', 'path'] } },
  // A model needs an answer's text. Without this it gets JSON, with data about the answer that is for programs.
  afterToolCall: ({ result: [content] }) => ({ result: [content].flat().map(part => part.text ?? part).join('\n') }),
})
const tools = await servers.getTools()
const model = new ChatOpenAI({ model: process.env.OPENAI_MODEL ?? 'gpt-5' }).bindTools(tools)

const graph = new StateGraph(MessagesAnnotation)
  .addNode('model', async ({ messages }) => ({ messages: await model.invoke(messages) }))
  .addNode('tools', new ToolNode(tools)) // which tells the model of errors
  .addEdge(START, 'model')
  .addConditionalEdges('model', toolsCondition)
  .addEdge('tools', 'model')
  .compile()

const { messages } = await graph.invoke({ messages: [{ role: 'user', content: prompt }] }, { recursionLimit: 40 })
console.log(messages.at(-1).text)
await servers.close()
