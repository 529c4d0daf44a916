// A chart of what a database answers. The rows go from PostgreSQL into the session, and never through a model.
//
//   npm install && export SANDBOX_SQL_MAIN=postgres://reader:secret@localhost/shop
//   node chart/chart.mjs ["SELECT … "]
//
// The first column is drawn along the other ones. Without a query it is one that every PostgreSQL answers.
import { join } from 'node:path'
import { call, connect, run, save } from '../sandbox.mjs'

const { SANDBOX_SQL_MAIN } = process.env
if (!SANDBOX_SQL_MAIN) throw new Error('Set SANDBOX_SQL_MAIN to the address of a PostgreSQL')
const query = process.argv[2] ?? `
  SELECT day::date, (100 + 40 * sin(extract(doy FROM day) / 58))::numeric(6, 2) AS orders
  FROM generate_series(timestamp '2026-01-01', '2026-12-31', '1 day') AS day ORDER BY day`

const sandbox = await connect([], { SANDBOX_SQL_MAIN })
await call(sandbox, 'exec_sql', { query, save_as: 'chart.csv' })
await run(sandbox, join(import.meta.dirname, 'chart.py'))
await save(sandbox, 'chart.png')
await sandbox.close()
