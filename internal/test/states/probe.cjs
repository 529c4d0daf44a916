// Prints a line with a hash of each of these variables, and of each file.
const { createHash } = require('node:crypto')
const { execFileSync } = require('node:child_process')
const text = value => {
  if (typeof value === 'function') return String(value)
  if (value instanceof Map || value instanceof Set) return `${value.constructor.name}${text([...value])}`
  if (Array.isArray(value)) return `[${value.map(text)}]`
  if (value instanceof Date) return `Date ${value.getTime()}`
  if (ArrayBuffer.isView(value)) return `${value.constructor.name} ${[...value]}`
  if (typeof value === 'object' && value) return `${value.constructor?.name}{${Object.entries(value).map(([key, one]) => `${key}:${text(one)}`)}}`
  return `${typeof value} ${Object.is(value, -0) ? '-0' : String(value)}`
}
module.exports = variables => {
  const hashes = Object.entries(variables).map(([name, value]) => `${name}=${createHash('sha256').update(text(value)).digest('hex').slice(0, 8)}`)
  console.log(['STATE', ...hashes, execFileSync('bash', ['/mnt/data/input/files.sh'], { encoding: 'utf8' })].join(' '))
}
