// activity.cjs: when threads have run, as far as their times tell that are read now and then.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, test } from 'node:test';

const require = createRequire(import.meta.url);
const { Activity } = require('../supervisor/activity.cjs');

const MS = 1_000_000;

/** noted makes an activity of notes [from, milliseconds that the one thread has run, to]; all before 100 is the first. */
function noted(...notes) {
  const activity = new Activity(0);
  for (const [from, ran, to] of [[100, 1, 100], ...notes]) activity.note(from, ran === null ? null : new Map([['1', ran * MS]]), to);
  return activity;
}

describe('what has run', () => {
  const cases = [
    ['between two notes is covered', noted([300, 1, 300], [500, 2, 500]), 400, true],
    ['before them is not', noted([300, 1, 300], [500, 2, 500]), 200, false],
    ['after them is not', noted([300, 2, 300], [500, 2, 500]), 400, false],
    ['while its time was read, and was in it, is covered', noted([300, 2, 900]), 800, true],
    ['while its time was read, and was not in it yet, is covered', noted([300, 1, 900], [1100, 2, 1100]), 800, true],
    ['is all of the time where the system does not tell', noted([300, null, 300]), 200, true],
    ['too little to be awake is not covered', noted([300, 1.1, 300]), 200, false],
  ];
  for (const [name, activity, at, expected] of cases) {
    test(name, () => assert.equal(activity.covers(at, at), expected));
  }
});

test('what ran for longer is one span, and what follows another', () => {
  const activity = noted([300, 2, 350], [500, 3, 550], [700, 3, 750], [900, 3, 950], [1100, 4, 1150]);
  assert.deepEqual([50, 250, 540, 650, 850, 1000].map((at) => activity.covers(at, at)), [true, true, true, false, false, true]);
});
