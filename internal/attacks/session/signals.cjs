// A signal to process 1 costs the code its own variables at the most: the session goes on.
//
// Tried: the debugger that SIGUSR1 would start, and then every signal, the harshest first.
const net = require('node:net');

process.kill(1, 'SIGUSR1');
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

// They arrive, since it is the same user. What comes of it is seen from outside.
for (const number of ['SIGKILL', 'SIGSTOP', 'SIGSEGV', ...Array.from({ length: 64 }, (_, i) => i + 1)]) {
  try {
    process.kill(1, number);
  } catch (error) {
    count(error.code);
  }
}
