// Comes to a session with one official TypeScript client after another, and says which answers tell what the session has.
// Usage: node card.mjs PROGRAM STATE_DIR
import assert from 'node:assert/strict'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const [program, state] = process.argv.slice(2)

async function conversation(hold) {
  const client = new Client({ name: 'e2e', version: '1' })
  await client.connect(new StdioClientTransport({ command: program, args: ['--state-dir', state], stderr: 'ignore' }))
  /** card is the note of a call's answer, which is the last of its texts; undefined: it has none. */
  const card = async (name, args) => {
    const { content, isError } = await client.callTool({ name, arguments: args })
    assert.ok(!isError, content[0].text)
    assert.ok(!content[0].text.includes('Note: session card has'), 'the note is in the answer itself')
    return content.slice(1).find(c => /^Note: (this )?session .*has /.test(c.text))?.text
  }
  await hold(card)
  await client.close()
}

/** same compares a card; a kernel that does not answer in time, as on a busy machine, is at work. */
const same = (card, wanted) => assert.ok(card === wanted || / at work/.test(card), card)

const session_id = 'card'
await conversation(async card => {
  assert.equal(await card('run_python_code', { code: "import json\nrows = [0] * 1204\nopen('output/made.csv', 'w').close()", session_id }), undefined)
  assert.equal(await card('run_js_code', { code: 'const few = new Map([[1, 2]])', session_id }), undefined)
  assert.equal(await card('run_bash', { code: 'name=x', session_id }), undefined)
  assert.equal(await card('list_artifacts', { session_id }), undefined)
})
const all = 'Note: session card has Python variables `rows list 1,204`; Python imports `json`; JavaScript variables `few Map 1`; Bash variables `name text`; ' +
  'files `output/made.csv`; session_info lists them.'
await conversation(async card => same(await card('list_artifacts', { session_id }), all))
await conversation(async card => {
  same(await card('run_python_code', { code: 'more = 1', session_id }), all.replace('`rows list 1,204`', '`more int`, `rows list 1,204`'))
  assert.equal(await card('run_bash', { code: 'true', session_id }), undefined)
  assert.equal(await card('run_python_code', { code: 'less = 1', session_id }), undefined)
  same(await card('restore_session', { steps: 1, session_id }), all.replace('`rows list 1,204`', '`more int`, `rows list 1,204`'))
  assert.equal(await card('run_python_code', { code: '1', session_id }), undefined)
  assert.equal(await card('close_session', { session_id, keep_files: true }), undefined)
  const woken = await card('run_python_code', { code: '1', session_id })
  assert.match(woken, /Python variables `more int`, `rows list 1,204`; Python imports `json`; JavaScript variables asleep `few`.*; Bash variables asleep `name`; files/)
  assert.equal(await card('run_python_code', { code: '1', session_id }), undefined)
})
await conversation(async card => {
  assert.equal(await card('session_info', { session_id }), undefined)
  assert.equal(await card('run_python_code', { code: '1', session_id }), undefined, 'session_info has told it')
  for (const code of ['x = 1', 'x']) assert.equal(await card('run_python_code', { code }), undefined, 'a session of its own')
  await card('close_session', { session_id })
})
console.log('ok')
