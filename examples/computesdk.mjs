// ComputeSDK's measure of sandboxes, time to interactive, against a server of one's own: its provider for E2B, unmodified.
//
//     code-sandbox-server --http 127.0.0.1:8000 --apis e2b --max-sessions 110
//
// E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY as docs/e2b.md says. Arguments: how many sandboxes (100), and the parts to run.

import { e2b } from "@computesdk/e2b";

const [count = "100", ...wanted] = process.argv.slice(2);
const number = Number(count);
const compute = e2b({ apiKey: process.env.E2B_API_KEY });
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// interactive is the time from the request for a sandbox to the end of its first commands, in ms. The first fails in a used sandbox.
async function interactive() {
  let sandbox;
  try {
    const begun = performance.now();
    sandbox = await compute.sandbox.create();
    for (const command of ["[ ! -e /tmp/used ] && touch /tmp/used && readlink /proc/self/ns/pid", "node -v"]) {
      const result = await sandbox.runCommand(command);
      if (result.exitCode !== 0) throw new Error(`${command}: ${result.stderr}`);
    }
    return performance.now() - begun;
  } catch (error) {
    console.error(String(error));
  } finally {
    await sandbox?.destroy();
  }
}

// Each part returns the times of its sandboxes; undefined: it was lost.
const parts = {
  async sequential() {
    const times = [];
    for (let i = 0; i < number; i++) times.push(await interactive());
    return times;
  },
  staggered: () => Promise.all(Array.from({ length: number }, (_, i) => wait(200 * i).then(interactive))),
  burst: () => Promise.all(Array.from({ length: number }, interactive)),
};

for (const name of wanted.length ? wanted : Object.keys(parts)) {
  const begun = performance.now();
  const times = await parts[name]();
  const seconds = (performance.now() - begun) / 1000;
  const good = times.filter((time) => time !== undefined).sort((a, b) => a - b);
  const cut = Math.floor(good.length / 20); // the fastest and slowest do not count
  const counted = good.slice(cut, good.length - cut);
  const at = (part) => counted[Math.max(0, Math.ceil(part * counted.length) - 1)] ?? Infinity;
  const score = (ms) => Math.max(0, 100 * (1 - ms / 10_000));
  const total = ((0.6 * score(at(0.5)) + 0.25 * score(at(0.95)) + 0.15 * score(at(0.99))) * good.length) / times.length;
  const shown = [0.5, 0.95, 0.99].map((part) => `p${part * 100} ${at(part).toFixed(0)} ms`).join(", ");
  console.log(`${name}: ${shown}; longest ${good.at(-1)?.toFixed(0)} ms; ${good.length} of ${times.length} in ${seconds.toFixed(1)} s; score ${total.toFixed(1)}`);
}
