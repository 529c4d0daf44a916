// Process 1, which speaks to the server, cannot be read or written to.
//
// Tried: its memory, descriptors and environment under /proc.
for (const part of ['mem', 'maps', 'environ', 'auxv', 'syscall', 'stack', 'pagemap', 'task/1/mem']) {
  refused(() => fs.readSync(fs.openSync(`/proc/1/${part}`), Buffer.alloc(1)), `read ${part}`);
}
for (const part of ['mem', 'task/1/mem', 'clear_refs', 'oom_score_adj']) {
  refused(() => fs.openSync(`/proc/1/${part}`, 'r+'), `write ${part}`);
}
for (const part of ['fd', 'fdinfo', 'map_files', 'task/1/fd']) refused(() => fs.readdirSync(`/proc/1/${part}`), part);
for (const part of ['exe', 'cwd', 'root']) refused(() => fs.readlinkSync(`/proc/1/${part}`), part);
for (let fd = 0; fd < 256; fd++) {
  for (const flags of [fs.constants.O_RDONLY, fs.constants.O_WRONLY]) {
    refused(() => fs.closeSync(fs.openSync(`/proc/1/fd/${fd}`, flags | fs.constants.O_NONBLOCK)), `descriptor ${fd}`);
  }
}
