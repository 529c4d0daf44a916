// The values that are passed through are masked in what an answer says.
//
// Tried: each value printed, split over writes, in base64 and URL-encoded, on stderr, as a result and in a traceback.
for (const name of Object.keys(FACTS.given)) {
  const value = process.env[name];
  console.log(value, JSON.stringify(value), encodeURIComponent(value), [value]);
  for (const shift of ['', 'x', 'xy']) console.log(Buffer.from(`${shift}${value}tail`).toString('base64'));
  process.stdout.write(value.slice(0, value.length / 2));
  process.stdout.write(value.slice(value.length / 2));
  console.error(value);
}
throw new Error(Object.keys(FACTS.given).map((name) => process.env[name]).join(' '));
