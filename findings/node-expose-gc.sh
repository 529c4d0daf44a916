#!/usr/bin/env bash
# Node 24.9.0 loads its own modules about three times as slowly with --expose-gc: V8 takes the flag for one that changes code, and refuses
# the compiled code that is in Node's binary. Worker threads take twice as long to start. The function without that:
# v8.setFlagsFromString('--expose-gc'), vm.runInNewContext('gc'), and the flag off again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund node@24.9.0
cat >load.cjs <<'J'
if (process.argv[2]) {
  const v8 = require('node:v8')
  v8.setFlagsFromString('--expose-gc')
  globalThis.gc = require('node:vm').runInNewContext('gc')
  v8.setFlagsFromString('--no-expose-gc')
}
const before = process.cpuUsage()
for (const name of ['net', 'child_process', 'worker_threads', 'fs/promises', 'crypto', 'http']) require(`node:${name}`)
const { user, system } = process.cpuUsage(before)
console.log(user + system, typeof gc)
J
# least prints the least processor time of ten starts, in microseconds, and the type of gc.
least() { for _ in {1..10}; do node_modules/node/bin/node "$@"; done | sort -n | head -n 1; }
read -r plain plainly <<<"$(least load.cjs)"
read -r flagged flag <<<"$(least --expose-gc load.cjs)"
read -r later set <<<"$(least load.cjs later)"
echo "Node 24.9.0, six modules: $plain us; with the flag $flagged; with gc taken by the program $later"
[ "$plainly $flag $set" = "undefined function function" ]
[ $((flagged * 2)) -gt $((plain * 3)) ] && [ $((later * 3)) -lt $((flagged * 2)) ]
