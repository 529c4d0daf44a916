// Prints how a client starts the server of a bundle.
// Usage: node bundle.mjs FOLDER JSON, the folder of the unpacked bundle and what its user has filled in.
import { readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { getMcpConfigForManifest } from '@anthropic-ai/mcpb'

const [folder, filled] = process.argv.slice(2)
const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'))
const config = await getMcpConfigForManifest({
  manifest, extensionPath: folder, systemDirs: {}, userConfig: JSON.parse(filled), pathSeparator: sep,
})
console.log(JSON.stringify(config))
