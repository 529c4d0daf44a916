// Mastra's sandbox by E2B, with its defaults, step by step.
import assert from 'node:assert'
import { after, before, test } from 'node:test'
import { E2BSandbox } from '@mastra/e2b'

const sandbox = new E2BSandbox()
before(() => sandbox.start())
after(() => sandbox.destroy())

test('a command', async () => {
  const { exitCode, stdout, stderr } = await sandbox.executeCommand('sh', ['-c', 'echo $WORD; echo err >&2'], { env: { WORD: 'hello' } })
  assert.deepStrictEqual([exitCode, stdout, stderr], [0, 'hello\n', 'err\n'])
  assert.strictEqual((await sandbox.executeCommand('sh', ['-c', 'exit 3'])).exitCode, 3)
})

test('files', async () => {
  await sandbox.writeFiles([{ path: 'a.txt', content: 'one' }])
  assert.strictEqual((await sandbox.executeCommand('cat', ['a.txt'])).stdout, 'one')
})

test('a process', async () => {
  const reader = await sandbox.processes.spawn('read line; echo got $line')
  await reader.sendStdin('word\n')
  assert.match((await reader.wait()).stdout, /got word/)
  const sleeper = await sandbox.processes.spawn('sleep 600')
  assert.ok((await sandbox.processes.list()).some(({ pid }) => pid === sleeper.pid))
  assert.ok(await sleeper.kill())
})

test('a pause', async () => {
  await sandbox._stop() // as a workspace does it: stop() alone leaves the state at "running"
  await sandbox._start()
  assert.strictEqual((await sandbox.executeCommand('cat', ['a.txt'])).stdout, 'one')
})
