// 50,000 rows explored in three steps of one session, with a PDF in the end: rows.py makes (or loads) and cleans them,
// look.py draws, pdf.py writes output/trips.pdf. Each step has the variables of the one before.
//
//   npm install && node explore/explore.mjs
import { join } from 'node:path'
import { connect, run, save } from '../sandbox.mjs'

const sandbox = await connect()
for (const step of ['rows.py', 'look.py', 'pdf.py']) await run(sandbox, join(import.meta.dirname, step))
await save(sandbox, 'trips.pdf')
await sandbox.close()
