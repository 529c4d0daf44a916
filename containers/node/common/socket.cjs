'use strict';
/* Where a supervisor listens for the server that takes over. */

/**
 * socketPath is a name that needs no file, where this Node can do that, which it can from
 * libuv 1.46 on: an older one would cut it off at its first byte. CODE_SANDBOX_SOCKET names
 * another place, for supervisors that are not alone in their container.
 */
function socketPath() {
  if (process.env.CODE_SANDBOX_SOCKET) return process.env.CODE_SANDBOX_SOCKET.replace(/^@/, '\0');
  const [major, minor] = process.versions.uv.split('.').map(Number);
  return major > 1 || minor >= 46 ? '\0code-sandbox-mcp' : '/tmp/.code-sandbox-mcp.sock';
}

module.exports = { socketPath };
