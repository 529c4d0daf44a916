// Code in the sandbox calls the tools of another MCP server 301 times, in one run, and the answer has a summary of it.
//
//   npm install
//   node issues/issues.mjs
//
// mcp.json names the server, as a client's configuration does. It is started on this machine, outside of the sandbox.
import { fileURLToPath } from 'node:url'
import { connect, run } from '../sandbox.mjs'

const here = (name) => fileURLToPath(new URL(name, import.meta.url))

const sandbox = await connect(['--mcp-servers', here('mcp.json')], { NODE: process.execPath, TRACKER: here('tracker.mjs') })
await run(sandbox, here('summary.py'))
await sandbox.close()
