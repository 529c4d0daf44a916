// Process 1, which speaks to the server, cannot be read, written to or ended.
//
// Tried: its memory, descriptors and environment under /proc, every signal, the debugger that SIGUSR1 would start.
const net = require('node:net');

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

// They arrive, since it is the same user; whether it lives on is seen from outside.
for (let number = 1; number <= 64; number++) {
  try {
    process.kill(1, number);
  } catch (error) {
    count(error.code);
  }
}
notes.push('64 signals were sent');

// A process that has no debugger now may have one in a moment.
for (let tries = 0; tries < 20; tries++) {
  await new Promise((resolve, reject) => {
    const client = net.connect(9229, '127.0.0.1');
    client.once('connect', () => reject(new GaveWay('a debugger listens on port 9229')));
    client.once('error', (error) => {
      if (tries === 0) count(error.code);
      setTimeout(resolve, 25);
    });
  });
}
