// Code inside the sandbox calls a model with a key that it never has.
//
//   npm install && export GEMINI_API_KEY=…
//   node inside.mjs
//
// The code finds a placeholder in its GEMINI_API_KEY. The server puts the key in its place, in requests to this host alone.
// Another model: GEMINI_MODEL. Another endpoint: GOOGLE_GEMINI_BASE_URL.
import { call, connect } from './sandbox.mjs'

const base = process.env.GOOGLE_GEMINI_BASE_URL ?? 'https://generativelanguage.googleapis.com'
const model = process.env.GEMINI_MODEL ?? 'gemini-flash-latest'
const secret = `GEMINI_API_KEY@${new URL(base).hostname}`

const sandbox = await connect(['--secret', secret], process.env)
await call(sandbox, 'run_python_code', {
  code: `
import os, requests
headers = {"x-goog-api-key": os.environ["GEMINI_API_KEY"]}
question = {"contents": [{"parts": [{"text": "In one word: which language is spoken in Brazil?"}]}]}
answer = requests.post("${base}/v1beta/models/${model}:generateContent", json=question, headers=headers)
answer.raise_for_status()
print("sent with", headers["x-goog-api-key"][:30], "…")
print(answer.json()["candidates"][0]["content"]["parts"][0]["text"])
`,
})
await sandbox.close()
