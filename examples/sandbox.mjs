// What the other examples share: how the server is started, and how a tool is called.
import { mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** The folder that the server saves files to. */
export const output = resolve('output')
mkdirSync(output, { recursive: true })

/** The server is found on the PATH. What is wrong with it is told on stderr. */
export const command = 'code-sandbox-mcp'
export const args = ['--log-level', 'warn', '--allow-host-dir', output]

/**
 * One that runs already, over HTTP: MCP_URL is its address, MCP_TOKEN what it asks for. What connects without a handshake keeps its
 * variables by the session's name, in this header or as ?session=NAME.
 */
export const url = process.env.MCP_URL
export const headers = { Authorization: `Bearer ${process.env.MCP_TOKEN}`, 'X-Session-Id': `example-${process.pid}` }

/** What a model is asked to do, unless the command line says something else. */
export const prompt = process.argv[2] ?? `How many primes are there below 10,000? Compute it, plot the number of primes below n, and save the figure to ${join(output, 'primes.png')}.`

/** Starts a server with more arguments and variables, or takes the one that runs, and connects to it. */
export async function connect(more = [], env = {}) {
  const client = new Client({ name: 'example', version: '1' })
  await client.connect(url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
    : new StdioClientTransport({ command, args: [...args, ...more], env: { ...getDefaultEnvironment(), ...env } }))
  return client
}

/** Calls a tool that has to work, and prints its answer. */
export async function call(client, name, input) {
  const { content: [first], isError, _meta } = await client.callTool({ name, arguments: input })
  console.log(`\n${name}: ${first.text}`)
  const { status = 'completed' } = _meta?.['code-sandbox-mcp/result'] ?? {} // only runs have one
  if (isError || status !== 'completed') throw new Error(`${name} did not work`)
}

/** Runs a file of Python in the session. */
export const run = (client, file) => call(client, 'run_python_code', { code: readFileSync(file, 'utf8') })

/** Saves a file of the session to the output folder. */
export const save = (client, name) => call(client, 'read_artifact', { path: `output/${name}`, save_to: join(output, name), overwrite: true })
