// The OAuth clients of the official TypeScript SDKs: they find the server's authorization server, register, have a person allow them,
// call a tool, and refresh their token. The person has a browser that speaks HTTP and does what the page says.
// Usage: node oauth.mjs URL PERSON_TOKEN legacy|modern
import assert from 'node:assert/strict'

const [target, personToken, era] = process.argv.slice(2)

async function library() {
  if (era === 'modern') {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
    return { Client, StreamableHTTPClientTransport, options: { versionNegotiation: { mode: { pin: '2026-07-28' } } } }
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  return { Client, StreamableHTTPClientTransport, options: {} }
}

/** The person opens the page, types their token, and allows it; what comes back is the address of the answer. */
async function allow(address) {
  const page = await fetch(address, { redirect: 'manual' })
  const html = await page.text()
  assert.equal(page.status, 200, html)
  assert.match(html, /“TypeScript”/)
  const ticket = /name="ticket" value="([^"]+)"/.exec(html)[1]
  const answer = await fetch(new URL('/oauth/authorize', address), {
    method: 'POST', redirect: 'manual',
    headers: { Cookie: page.headers.getSetCookie()[0].split(';')[0], Origin: new URL(address).origin },
    body: new URLSearchParams({ ticket, token: personToken, decision: 'allow' }),
  })
  assert.equal(answer.status, 303, await answer.text())
  return new URL(answer.headers.get('Location'))
}

/** A provider that keeps all in memory, as a client's own would in its store. */
class Provider {
  asked = []
  redirectUrl = 'http://127.0.0.1:43210/callback'
  clientMetadata = { client_name: 'TypeScript', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }
  state() { return 'a state' }
  clientInformation() { return this.client }
  saveClientInformation(client) { this.client = client }
  tokens() { return this.kept }
  saveTokens(tokens) { this.kept = tokens }
  redirectToAuthorization(address) { this.asked.push(address) }
  saveCodeVerifier(verifier) { this.verifier = verifier }
  codeVerifier() { return this.verifier }
  saveDiscoveryState(state) { this.discovered = state }
  discoveryState() { return this.discovered }
  invalidateCredentials(scope) {
    if (scope === 'all' || scope === 'tokens') delete this.kept
    if (scope === 'all' || scope === 'client') delete this.client
  }
}

const { Client, StreamableHTTPClientTransport, options } = await library()
const provider = new Provider()
const open = () => new StreamableHTTPClientTransport(new URL(target), { authProvider: provider })
const client = () => new Client({ name: 'oauth', version: '1' }, options)

const first = open()
await assert.rejects(client().connect(first), error => error.constructor.name === 'UnauthorizedError')
assert.equal(provider.asked.length, 1)
const query = provider.asked[0].searchParams
assert.equal(query.get('resource'), target)
assert.match(query.get('scope'), /^sandbox/)
assert.equal(query.get('code_challenge_method'), 'S256')

const back = await allow(provider.asked[0])
assert.equal(back.searchParams.get('state'), 'a state')
assert.equal(back.searchParams.get('iss'), new URL(target).origin)
if (era === 'modern') await first.finishAuth(back.searchParams)
else await first.finishAuth(back.searchParams.get('code'))
assert.match(provider.kept.access_token, /^csm_at_/)
assert.match(provider.kept.refresh_token, /^csm_rt_/)

/** A tool is called with the token that there is. */
async function use() {
  const c = client()
  const transport = open()
  await c.connect(transport)
  const { tools } = await c.listTools()
  assert.ok(tools.some(tool => tool.name === 'run_python_code'))
  const params = { name: 'list_sessions', arguments: {} }
  const result = await (era === 'modern' ? c.callTool(params) : c.callTool(params, undefined))
  assert.notEqual(result.isError, true, JSON.stringify(result))
  if (era === 'legacy') await transport.terminateSession()
  await c.close()
}
await use()

// An access token that is not good any more is refreshed, and nobody is asked.
const before = provider.kept
provider.kept = { ...before, access_token: before.access_token + 'x' }
await use()
assert.notEqual(provider.kept.access_token, before.access_token)
assert.notEqual(provider.kept.refresh_token, before.refresh_token)
assert.equal(provider.asked.length, 1)

// A refresh token that was used is not good any more, and so is none of its family: the person is asked again.
const last = provider.kept
provider.kept = { ...before, access_token: 'csm_at_x' }
await assert.rejects(use(), error => error.constructor.name === 'UnauthorizedError')
assert.equal(provider.asked.length, 2)
provider.kept = last
await assert.rejects(use(), error => error.constructor.name === 'UnauthorizedError')
assert.equal(provider.asked.length, 3)
console.log('ok')
