#!/usr/bin/env bash
# @openai/agents 0.20.0 gives a call that times out the code REQUEST_TIMEOUT. Where the server's URL has a query, any query,
# the same timeout comes as an Error without a code: the query counts as a credential, and the whole error is replaced.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --no-save @openai/agents@0.20.0 zod@4
cat >calls.mjs <<'J'
import http from 'node:http'
import { MCPServerStreamableHttp } from '@openai/agents'

// It takes the handshake, and never answers a call.
const server = http.createServer((request, response) => {
  if (request.method !== 'POST') return response.writeHead(405).end()
  let body = ''
  request.on('data', part => { body += part })
  request.on('end', () => {
    const { id, method, params } = JSON.parse(body)
    if (id === undefined) return response.writeHead(202).end()
    if (method === 'tools/call') return
    const answer = method === 'initialize'
      ? { result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'silent', version: '1' } } }
      : { error: { code: -32601, message: 'Method not found' } }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  })
})
await new Promise(ready => server.listen(0, '127.0.0.1', ready))
for (const query of ['', '?session=a']) {
  const client = new MCPServerStreamableHttp({ name: 'silent', url: `http://127.0.0.1:${server.address().port}/mcp${query}`, timeout: 500 })
  await client.connect()
  await client.callTool('any', {}).catch(error => console.log(`query "${query}": ${error.code}`))
}
process.exit()
J
seen=$(node calls.mjs 2>/dev/null)
echo "$seen"
[ "$seen" = $'query "": REQUEST_TIMEOUT\nquery "?session=a": undefined' ] || { echo "that has changed"; exit 1; }
