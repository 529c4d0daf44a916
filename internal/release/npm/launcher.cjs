#!/usr/bin/env node
'use strict';
// Becomes the program of this platform, which has come as an optional dependency.
const { spawn } = require('node:child_process');
const { constants } = require('node:os');

const name = `@code-sandbox-mcp/code-sandbox-mcp-${process.platform}-${process.arch}`;
const file = `bin/code-sandbox-mcp${process.platform === 'win32' ? '.exe' : ''}`;

let program;
try {
  program = require.resolve(`${name}/${file}`);
} catch {
  console.error(`code-sandbox-mcp: the package ${name} is not installed. Either there is none for this platform, or ` +
    'npm was told to leave optional dependencies out: install again without --omit=optional.');
  process.exit(1);
}
const args = process.argv.slice(2);
// What the program tells people to type.
process.env.CODE_SANDBOX_MCP_COMMAND ??= 'npx -y @code-sandbox-mcp/code-sandbox-mcp';

if (process.execve && process.platform !== 'win32') {
  // In the place of this process: nothing stands between the client and the server, and none of Node's memory stays.
  process.removeAllListeners('warning');
  process.execve(program, [program, ...args], process.env);
}

// Where Node cannot do that, it waits. The program has our stdin and stdout, and hears what we are told.
const child = spawn(program, args, { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(`code-sandbox-mcp: ${program} does not start: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
