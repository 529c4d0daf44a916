#!/usr/bin/env bash
# Yarn 4.18.1 takes a version whose registry does not tell when it was published for one that is too new: its default
# npmMinimalAgeGate refuses it as quarantined. npm installs it.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p tools package work
npm install --silent --no-audit --no-fund --prefix tools @yarnpkg/cli-dist@4.18.1
echo '{"name":"plain","version":"1.0.0"}' >package/package.json
tar czf plain-1.0.0.tgz package
cat >registry.mjs <<'J'
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import http from 'node:http'

const tarball = readFileSync('plain-1.0.0.tgz')
const server = http.createServer((request, response) => {
  if (request.url.endsWith('.tgz')) return response.end(tarball)
  const dist = { tarball: `http://127.0.0.1:${server.address().port}/plain/-/plain-1.0.0.tgz`, integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}` }
  response.end(JSON.stringify({ name: 'plain', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': { name: 'plain', version: '1.0.0', dist } } }))
})
server.listen(0, '127.0.0.1', () => { writeFileSync('port.new', String(server.address().port)); renameSync('port.new', 'port') })
J
node registry.mjs &
server=$!
until [ -e port ]; do sleep 0.1; done
registry="http://127.0.0.1:$(cat port)/"
cd work
echo '{}' >package.json
npm install --silent --no-audit --no-fund --registry "$registry" plain
echo "npm: $(ls node_modules)"
rm -rf node_modules package-lock.json
echo '{}' >package.json
touch yarn.lock
export YARN_NPM_REGISTRY_SERVER=$registry YARN_UNSAFE_HTTP_WHITELIST=127.0.0.1 YARN_ENABLE_TELEMETRY=0
said=$(node ../tools/node_modules/.bin/yarn add plain 2>&1) && { echo "Yarn installs it"; exit 1; }
seen=$(grep -o 'The version for tag "latest" is quarantined' <<<"$said" | head -n 1)
echo "Yarn: $seen"
[ -n "$seen" ]
