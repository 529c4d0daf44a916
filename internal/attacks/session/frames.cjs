// Forged frames spoil nothing but the code's own run.
//
// Tried: garbage, huge lengths, deep nesting and forged results, written to every descriptor that is inherited or found.
const frame = (message, kind = 'c') => {
  const data = Buffer.isBuffer(message) ? message : Buffer.from(JSON.stringify(message));
  const head = Buffer.from(`\0\0\0\0${kind}`);
  head.writeUInt32BE(data.length);
  return Buffer.concat([head, data]);
};
// A frame as a kernel tells it to its supervisor: a header and a blob.
const report = (message) => {
  const data = Buffer.from(JSON.stringify(message));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32BE(data.length);
  return Buffer.concat([lengths, data]);
};
const forged = [
  ...['run-x', '', null, 1].map((id) => (
    { type: 'done', id, status: 'completed', result: FACTS.token, kernel: 'alive', artifacts: [{ path: '../../etc/passwd' }] }
  )),
  ...['display', 'progress', 'peek', 'kernel', 'usage', 'log', 'ready', 'pong', 'stop', 'init', 'run', 'attach'].map((type) => (
    { type, id: 'run-x', pid: 1, n: -1, data: { 'image/png': '!!' }, path: '../../etc/passwd', state: 'dead' }
  )),
];
// What is well formed comes first: the rest ends a connection.
const ends = ['run-x', ''].map((id) => ({ type: 'done', id, result: FACTS.token, goes_on: [FACTS.token] }));
const payloads = [
  ...[...ends, ...forged].map(report),
  ...forged.map((message) => frame(message)),
  ...forged.map((message) => Buffer.from(`${JSON.stringify(message)}\n`)),
  frame(Buffer.alloc(60000, '[')), frame(Buffer.from('hello')), frame(Buffer.alloc(0)), frame(Buffer.alloc(12), 's'), frame(Buffer.from('hello'), 's'),
  Buffer.alloc(65536, 0xff), Buffer.from([0, 0, 3, 232, 123]),
];
for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
  for (let fd = pid === String(process.pid) ? 3 : 0; fd < 64; fd++) {
    let target;
    try {
      target = fs.openSync(`/proc/${pid}/fd/${fd}`, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
      if (fs.fstatSync(target).isFile()) continue;
    } catch (error) {
      if (error.code !== 'ENOENT') count(error.code);
      continue;
    }
    for (const payload of payloads) {
      try {
        fs.writeSync(target, payload);
      } catch (error) {
        count(error.code);
      }
    }
  }
}
for (let fd = 3; fd < 64; fd++) {
  for (const payload of payloads) {
    try {
      if (fs.fstatSync(fd).isFIFO() || fs.fstatSync(fd).isSocket()) fs.writeSync(fd, payload);
    } catch (error) {
      if (error.code !== 'EBADF') count(error.code);
    }
  }
}
for (const message of forged) process.send?.(message);
