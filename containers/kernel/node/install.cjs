// Installs packages with npm into the session's node_modules, for the server: in an interpreter of its own.
'use strict';
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { inspect } = require('node:util');

const LOCK = 'node_modules/.package-lock.json';
const EXACT = /^(@[^/@]+\/)?[^/@]+(@\d+\.\d+\.\d+)?$/;

/** versions returns the versions of the session's packages. */
function versions() {
  let packages;
  try {
    ({ packages } = JSON.parse(fs.readFileSync(LOCK, 'utf8')));
  } catch {
    return {};
  }
  const found = {};
  for (const [place, { version }] of Object.entries(packages ?? {})) {
    const name = place.split('node_modules/').pop();
    if (version !== undefined && place === `node_modules/${name}`) found[name] = version;
  }
  return found;
}

/** isThere reports whether a package, of an exact version or of any, is found by require. */
function isThere(spec) {
  if (!EXACT.test(spec)) return false;
  const at = spec.indexOf('@', 1);
  const [name, version] = at < 0 ? [spec] : [spec.slice(0, at), spec.slice(at + 1)];
  for (const folder of [process.cwd(), '/']) {
    try {
      const has = JSON.parse(fs.readFileSync(path.join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;
      return version === undefined || has === version;
    } catch {
      // not there
    }
  }
  return false;
}

/** install installs packages, prints npm's output, writes it to log, and returns a report. */
async function install(packages, log) {
  const before = versions();
  const missing = packages.filter((spec) => !isThere(spec));
  if (missing.length > 0) {
    fs.mkdirSync(path.dirname(log), { recursive: true });
    const file = fs.openSync(log, 'w');
    const npm = spawn('npm', ['install', '--no-audit', '--no-fund', '--no-progress', '--color=false', '--', ...missing], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [npm.stdout, npm.stderr]) {
      stream.on('data', (bytes) => {
        process.stdout.write(bytes);
        fs.writeSync(file, bytes);
      });
    }
    const code = await new Promise((resolve, reject) => npm.on('close', resolve).on('error', reject));
    fs.closeSync(file);
    if (code !== 0) process.exit(code ?? 1);
  }
  const changed = Object.fromEntries(Object.entries(versions()).filter(([name, version]) => before[name] !== version));
  const text = JSON.stringify({ installed: changed, already: packages.filter((spec) => !missing.includes(spec)) });
  return { [inspect.custom]: () => text };
}

module.exports = { install };
