// Of the server's environment, only what is passed through reaches the code.
//
// Tried: the environment of the code and of every process that is to be seen.
const { createHash } = require('node:crypto');

const digest = (value) => createHash('sha256').update(value).digest('hex');
for (const [name, value] of Object.entries(FACTS.given)) {
  if (digest(process.env[name] ?? '') !== value) throw new GaveWay(`${name} was to be passed through`);
}
const hidden = new Set(Object.values(FACTS.withheld));
const look = (name, value) => {
  if (hidden.has(digest(value))) throw new GaveWay(`${name} has a value of the server's environment`);
};
for (const [name, value] of Object.entries(process.env)) look(name, value);
for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
  let text;
  try {
    text = fs.readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch (error) {
    count(error.code);
    continue;
  }
  for (const entry of text.split('\0')) look(entry.split('=', 1)[0], entry.slice(entry.indexOf('=') + 1));
}
notes.push(`${Object.keys(FACTS.withheld).length} variables of the server are not there`);
if (Object.keys(FACTS.given).length) notes.push(`passed through: ${Object.keys(FACTS.given).sort().join(', ')}`);
