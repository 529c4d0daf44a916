'use strict';
/* A run as the supervisor knows it while it goes on. */

const { Capture, Spool } = require('./output.cjs');
const { clamp } = require('../common/values.cjs');

/** Run is one execution of code, from its run frame to its done frame. */
class Run {
  /** filesFrom is when the run begins by the clock that stamps files. */
  constructor(frame, settings, filesFrom) {
    this.id = frame.id;
    this.code = frame.code;
    this.fresh = frame.fresh === true;
    this.graceMs = clamp(frame.grace_ms, 2000, 0, 3_600_000);
    this.timeoutMs = clamp(frame.timeout_ms, 0, 0, 2 ** 31 - 1);
    this.started = performance.now();
    this.filesFrom = filesFrom;
    this.out = this.#capture(settings, 'stdout');
    this.err = this.#capture(settings, 'stderr');
    this.losses = 0; // kernels that died before they began it
    this.isGiven = false; // to a kernel
    this.displays = 0;
    this.reason = ''; // why it was interrupted
    this.timers = [];
    this.progressBytes = 0;
    this.progressAt = this.started;
  }

  #capture(settings, stream) {
    const spool = new Spool(settings.workDir, `${this.id}.${stream}.txt`, settings.spoolBytes);
    return new Capture(settings.outputBytes, spool);
  }

  get elapsedMs() {
    return Math.round(performance.now() - this.started);
  }

  /** every calls action each ms milliseconds until the run is closed. */
  every(ms, action) {
    this.timers.push(setInterval(action, ms));
  }

  /** after calls action in ms milliseconds unless the run is closed before. */
  after(ms, action) {
    this.timers.push(setTimeout(action, ms));
  }

  /** retire ends the run, whose files may still take late output. */
  retire() {
    for (const timer of this.timers) clearTimeout(timer);
    this.out.retire();
    this.err.retire();
  }

  /** close lets go of its files. */
  close() {
    this.out.spool.close();
    this.err.spool.close();
  }
}

module.exports = { Run };
