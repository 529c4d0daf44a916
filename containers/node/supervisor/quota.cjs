'use strict';
/*
 * The limit of the work directory, as docs/kernel-protocol.md tells. A volume has none of its
 * own, so process 1 watches what is there while code can write.
 */

const fs = require('node:fs');
const { readText } = require('./processes.cjs');
const { Tally } = require('../common/tally.cjs');
const { Unnamed } = require('./unnamed.cjs');

const TICK_MS = 100;
const MANY_FILES = 10_000;
const UNLIMITED_FILES = 200_000; // that are counted where only bytes have a limit
const SLICE_MS = 2; // how long a count may keep process 1 from anything else
const COUNT_SHARE = 20; // one part of the time in so many is for counting
const HASTE_SHARE = 4; // the same where the limit may be passed already
const CHEAP_MS = TICK_MS / COUNT_SHARE; // a count that takes no longer is made with every tick
const COUNT_ANYWAY_MS = 2000; // what is sparse, or no file, does not move the free space
const MOVED_PART = 8; // of what is left to the limit
const LOOK_MS = 1000; // between two looks whether anything is left that could write
const SAMPLE_MS = 200;
const OLD_MS = 500; // between two counts of a busy machine
const LATE_COUNT_MS = 250;
const HAS_RUN_NS = 200_000; // of processor time: less is what a sleeping process takes by itself

// What a run may add when the limit was passed before it began, so that it can delete.
const ALLOWANCE = { bytes: 1 << 20, files: 64 };

const fits = (usage, limit) => usage.bytes <= limit.bytes && usage.files <= limit.files;
const plus = (a, b) => ({ bytes: a.bytes + b.bytes, files: a.files + b.files });

/**
 * Quota watches a work directory. onOver({bytes, files, hider}) is called when the session's own
 * code has taken it over the limit, or process hider, if that is not 0, hides what it has open; code that has not run since it was under it has not. session.pids()
 * lists the processes of that code, session.hasPrograms() tells whether any are there beside
 * its kernels. It watches from begin, and stops by itself when nothing is left that writes.
 */
class Quota {
  #known = { bytes: 0, files: 0, hider: 0 }; // as of the last count
  #allowed;
  #timer = null;
  #tally = null;
  #turn = 0; // how many runs have begun or ended
  #since = Infinity; // when the run that goes on began, by the clock of files
  #begunAt = 0; // the same by our own clock
  #settled = true; // what the last run left is known
  #times = new Map(); // as of a count that was under the limit
  #sampledAt = -Infinity;
  #doubts = false; // the last count was over the limit, but could blame nobody
  #stirred = new Map(); // as of the last look
  #lookAt = 0;
  #countedAt = -Infinity;
  #cost = 0;
  #free = null; // as of the last count that has ended, from before it began

  constructor(root, limit, session, onOver) {
    this.root = root;
    this.limit = { bytes: limit.bytes || Infinity, files: limit.files || Infinity };
    this.session = session;
    this.onOver = onOver;
    this.#allowed = this.limit;
  }

  /** begin tells that a run begins, at since by the clock of files. */
  begin(since) {
    this.#turn++;
    this.#since = since;
    this.#begunAt = performance.now();
    this.#doubts = false;
    this.#free ??= freeSpace(this.root);
    this.#allowed = fits(this.#known, this.limit) ? this.limit : plus(this.#known, ALLOWANCE);
    this.#watch();
  }

  /**
   * end tells that the run is over, and what of it is known to have changed. It gives the
   * usage when that took it over the limit, and null otherwise; that a run ends before the
   * next count is no way past it.
   */
  end(changed) {
    const isSuspect = !fits(plus(this.#known, changed), this.#allowed) || this.#hasTaken();
    const isOver = isSuspect && this.#countNow();
    this.#turn++;
    this.#since = Infinity;
    this.#settled = false;
    return isOver ? this.#known : null;
  }

  /** glance looks whether a kernel has begun to do something by itself. It is for a timer that exists anyway. */
  glance() {
    if (this.#timer === null && this.#stirs()) this.#watch();
  }

  #watch() {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  get #inRun() {
    return this.#since < Infinity;
  }

  #tick() {
    if (this.#tally !== null) return;
    const now = performance.now();
    if (!this.#inRun && this.#settled && now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      if (!this.#stirs() && !this.session.hasPrograms()) {
        clearInterval(this.#timer);
        this.#timer = null;
        return;
      }
    }
    if (this.#isDue(now)) this.#count();
  }

  #isDue(now) {
    const passed = now - this.#countedAt;
    if (passed < (this.#doubts || this.#mayBeOver() ? HASTE_SHARE : COUNT_SHARE) * this.#cost) return false;
    const isFirst = this.#inRun && this.#countedAt < this.#begunAt;
    return isFirst || this.#doubts || this.#cost < CHEAP_MS || passed >= COUNT_ANYWAY_MS || this.#hasMoved();
  }

  #hasMoved() {
    const free = freeSpace(this.root);
    if (free === null || this.#free === null) return false;
    return ['bytes', 'files'].some((unit) => {
      return Math.abs(free[unit] - this.#free[unit]) > Math.max(0, this.limit[unit] - this.#known[unit]) / MOVED_PART;
    });
  }

  // mayBeOver tells whether the limit is passed if all that has gone from the free space since the last count is ours.
  #mayBeOver() {
    const free = freeSpace(this.root);
    if (free === null || this.#free === null) return false;
    return ['bytes', 'files'].some((unit) => this.#known[unit] + this.#free[unit] - free[unit] > this.limit[unit]);
  }

  // hasTaken tells whether the free space has shrunk by what is left to the limit: a file need not have a name for that.
  #hasTaken() {
    const free = freeSpace(this.root);
    if (free === null || this.#free === null) return false;
    return this.#free.bytes - free.bytes > this.#allowed.bytes - this.#known.bytes;
  }

  #newTally() {
    // Where there are far too many, it does not matter how many: counting them all takes long
    // while code makes more of them.
    const most = this.limit.files < Infinity ? 2 * this.limit.files + MANY_FILES : UNLIMITED_FILES;
    return new Tally(this.root, { most, since: this.#since });
  }

  #count() {
    const turn = this.#turn;
    const free = freeSpace(this.root);
    this.#tally = this.#newTally();
    this.#tally.inSlices(SLICE_MS, (tally) => {
      this.#newUnnamed().inSlices(SLICE_MS, (unnamed) => {
        this.#tally = null;
        this.#free = free;
        // What was counted partly before a run and partly in it accuses nobody.
        if (this.#judge(tally, unnamed, turn === this.#turn)) this.onOver(this.#known);
      });
    });
  }

  #newUnnamed() {
    // Process 1 keeps the files of output open, which the session's code may delete.
    return new Unnamed(this.root, [...this.session.pids(), process.pid], this.#since);
  }

  #countNow() {
    this.#free = freeSpace(this.root);
    const tally = this.#newTally();
    tally.step(LATE_COUNT_MS);
    tally.close();
    const unnamed = this.#newUnnamed();
    unnamed.step(LATE_COUNT_MS);
    return this.#judge(tally, unnamed, true);
  }

  // judge takes what was counted, and tells whether the session's code has gone over what it
  // may; counted in a piece is what no run began or ended under.
  #judge(tally, unnamed, inOnePiece) {
    const wasOver = this.#settled && !fits(this.#known, this.limit);
    this.#known = { bytes: tally.bytes + unnamed.bytes, files: tally.files, hider: unnamed.hider };
    this.#cost = tally.spentMs + unnamed.spentMs;
    this.#countedAt = performance.now();
    if (unnamed.hider !== 0) return true;
    if (!inOnePiece) return false;
    if (!this.#inRun) this.#settled = true;
    if (fits(this.#known, this.limit)) {
      this.#doubts = false;
      this.#allowed = this.limit;
      this.#sample();
      return false;
    }
    if (fits(this.#known, this.#allowed)) return false;
    const before = this.#times;
    const isOld = this.#sampledAt > this.#begunAt && performance.now() - this.#sampledAt > OLD_MS;
    this.#sample(true);
    // Files without a name are those of the session's own processes, asleep or not.
    const isHeld = unnamed.bytes > 0 && fits({ bytes: tally.bytes, files: tally.files }, this.#allowed);
    // Who ran long ago need not be who wrote. The next count tells, and comes soon.
    this.#doubts = isOld && !isHeld && !this.#doubts;
    if (this.#doubts) return false;
    this.#allowed = plus(this.#known, ALLOWANCE);
    // Without a run, what takes it over the limit need not be the session's; what goes on then is.
    const hasWritten = this.#inRun ? !fits({ bytes: tally.changedBytes + unnamed.changedBytes, files: tally.changedFiles }, ALLOWANCE) : wasOver;
    return hasWritten && (isHeld || hasRun(before, this.#times));
  }

  // It takes a millisecond, so far from the limit it is not done with every count.
  #sample(always = false) {
    const now = performance.now();
    const half = { bytes: this.limit.bytes / 2, files: this.limit.files / 2 };
    if (!always && fits(this.#known, half) && now - this.#sampledAt < SAMPLE_MS) return;
    this.#sampledAt = now;
    this.#times = this.#processorTimes();
  }

  #processorTimes() {
    return processorTimes(this.session.pids());
  }

  #stirs() {
    const before = this.#stirred;
    this.#stirred = this.#processorTimes();
    return hasRun(before, this.#stirred);
  }
}

/** freeSpace is what a file system has left, or null on a Node that cannot ask. */
function freeSpace(path) {
  try {
    const { bsize, bfree, ffree } = fs.statfsSync(path);
    return { bytes: bsize * bfree, files: ffree };
  } catch {
    return null;
  }
}

/** processorTimes gives the nanoseconds that each thread of the processes has run, null where the system does not tell. */
function processorTimes(pids) {
  const times = new Map();
  for (const pid of pids) {
    for (const thread of threads(pid)) {
      const text = readText(`/proc/${pid}/task/${thread}/schedstat`);
      if (text !== '') times.set(thread, Number(text.split(' ')[0]));
    }
  }
  return times.size === 0 && pids.length > 0 ? null : times;
}

function threads(pid) {
  try {
    return fs.readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // it has ended
  }
}

function hasRun(before, now) {
  if (before === null || now === null) return true;
  let sum = 0;
  for (const [thread, time] of now) sum += Math.max(0, time - (before.get(thread) ?? 0));
  return sum > HAS_RUN_NS;
}

module.exports = { Quota };
