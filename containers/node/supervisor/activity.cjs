'use strict';
/* When the session's code has run: who was asleep while a file changed has not changed it. */

const HAS_RUN_NS = 200_000; // of processor time: less is what a sleeping process takes by itself
const SLACK_MS = 20; // how far the clock of files may lag
const MOST_SPANS = 1000;

/**
 * Activity keeps the spans of time in which threads have run, from what is noted of them now and then.
 * Its times are in ms, by the clock of files.
 */
class Activity {
  #spans = []; // [from, to], oldest first
  #times = new Map();
  #at;

  /** All that has run before the first note has run from at on. */
  constructor(at) {
    this.#at = at;
  }

  /**
   * note tells the nanoseconds that each thread has run, as was read between two times: on a busy machine
   * they are far apart, and threads run in between. null where the system does not tell.
   */
  note(from, times, to) {
    if (hasRun(this.#times, times)) this.#add(this.#at, to);
    this.#at = from;
    this.#times = times;
  }

  /** covers tells whether anything has run between two times. */
  covers(from, to) {
    return this.#spans.some(([began, ended]) => began - SLACK_MS <= to && from <= ended + SLACK_MS);
  }

  #add(from, to) {
    const last = this.#spans.at(-1);
    if (last?.[1] >= from || this.#spans.length === MOST_SPANS) last[1] = to;
    else this.#spans.push([from, to]);
  }
}

/** hasRun tells whether threads have run between two lists of their times. */
function hasRun(before, now) {
  if (before === null || now === null) return true;
  let sum = 0;
  for (const [thread, time] of now) sum += Math.max(0, time - (before.get(thread) ?? 0));
  return sum > HAS_RUN_NS;
}

module.exports = { Activity, hasRun };
