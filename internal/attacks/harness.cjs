// Runs one attack, given as a function, and prints its verdict as harness.py does. It stands
// before the attack, inside a function of its own.
const fs = require('node:fs');

const refusals = {};
const notes = [];

class GaveWay extends Error {}
class Unenforced extends Error {}

function count(name) {
  refusals[name] = (refusals[name] ?? 0) + 1;
}

function refused(attempt, what) {
  try {
    attempt();
  } catch (error) {
    return count(error.code ?? error.name);
  }
  throw new GaveWay(`not refused: ${what}`);
}

async function attack(make) {
  let outcome = 'held';
  let why = '';
  try {
    await make();
  } catch (error) {
    if (error instanceof GaveWay) outcome = 'gave way';
    else outcome = error instanceof Unenforced ? 'not enforced' : 'not tried';
    why = String(error instanceof GaveWay || error instanceof Unenforced ? error.message : error.stack);
  }
  console.log(`\n${JSON.stringify({ outcome, why: why.slice(0, 2000), refusals, notes })}`);
}
