'use strict';
/* What a server that takes over has to be told of the last run. */

/**
 * Record keeps the displays of a run, and how it ended, for a server that takes over: the
 * one that asked for them may have died before it read them.
 */
class Record {
  static #MAX_BYTES = 8 << 20;
  #displays = [];
  #bytes = 0;
  #done = null;
  run = ''; // id of the run that goes on, or empty
  last = ''; // id of the last run that is over, or empty

  /** isKept false: no server can take over, and nothing but the ids is kept. */
  constructor(isKept) {
    this.limit = isKept ? Record.#MAX_BYTES : 0;
  }

  begin(id) {
    this.run = id;
    this.#displays = [];
    this.#bytes = 0;
    this.#done = null;
  }

  display(frame) {
    if (this.#bytes + frame.length > this.limit) return;
    this.#bytes += frame.length;
    this.#displays.push(frame);
  }

  end(frame) {
    [this.run, this.last] = ['', this.run];
    if (this.limit > 0) this.#done = frame;
  }

  /** frames lists what a server that takes over has to be told. */
  get frames() {
    return this.#done === null ? this.#displays : [...this.#displays, this.#done];
  }
}

module.exports = { Record };
