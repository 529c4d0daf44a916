// A folder of tables becomes a report: each CSV file is uploaded, report.py works on all of them, and the page that it
// writes is saved as output/report.html.
//
//   npm install && node report/report.mjs [FOLDER]
//
// The tables have the columns date, region, product, units and price, as those in report/data.
import { readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { call, connect, run, save } from '../sandbox.mjs'

const folder = resolve(process.argv[2] ?? join(import.meta.dirname, 'data'))
const sandbox = await connect(['--allow-host-dir', folder])
for (const filename of readdirSync(folder).filter(name => name.endsWith('.csv'))) {
  await call(sandbox, 'upload_file', { filename, host_path: join(folder, filename) })
}
await run(sandbox, join(import.meta.dirname, 'report.py'))
await save(sandbox, 'report.html')
await sandbox.close()
