// The socket by which a later server takes a session over asks for a token.
//
// Tried: runs without one, wrong, long and odd ones, a huge length, a crowd of connections.
const net = require('node:net');

const frame = (message) => {
  const data = Buffer.from(JSON.stringify(message));
  const head = Buffer.from('\0\0\0\0c');
  head.writeUInt32BE(data.length);
  return Buffer.concat([head, data]);
};

const connect = () => new Promise((resolve, reject) => {
  const client = net.connect('\0code-sandbox-mcp');
  client.once('connect', () => resolve(client));
  client.once('error', () => reject(new NotTried('the session has no such socket')));
});

// A connection must end without a word.
const silence = (client, payload) => new Promise((resolve, reject) => {
  client.on('data', (data) => reject(new GaveWay(`it answered ${data}`)));
  client.on('error', (error) => count(error.code));
  client.on('close', () => {
    count('closed');
    resolve();
  });
  client.setTimeout(1000 * FACTS.patience_seconds, () => reject(new GaveWay('the connection stays open')));
  client.write(payload);
});

const run = frame({ type: 'run', id: 'run-x', code: '1', timeout_ms: 0, grace_ms: 0 });
const attach = (token) => Buffer.concat([frame({ type: 'attach', protocol: 2, token }), run]);
const payloads = [
  run, attach(undefined), attach(''), attach('x'.repeat(32)),
  attach(null), attach(['x']), Buffer.alloc(8192, 0xff), frame({ type: 'stop' }),
];
// No more than four may wait for their word at once. A crowd that says nothing must not keep others out for good.
for (const four of [payloads.slice(0, 4), payloads.slice(4)]) {
  for (let i = 0; i < 12; i++) (await connect()).destroy();
  const clients = [];
  for (const payload of four) clients.push([await connect(), payload]);
  await Promise.all(clients.map(([client, payload]) => silence(client, payload)));
}
