'use strict';
/*
 * The limit of the work directory, as docs/kernel-protocol.md tells. A volume has none of its
 * own, so process 1 watches what is there while code can write.
 */

const fs = require('node:fs');
const { Activity, hasRun } = require('./activity.cjs');
const { readText } = require('./processes.cjs');
const { Tally } = require('../common/tally.cjs');
const { Unnamed } = require('./unnamed.cjs');

const TICK_MS = 100;
const MANY_FILES = 10_000;
const UNLIMITED_FILES = 1_000_000; // that are counted where only bytes have a limit
const SLICE_MS = 2; // how long a count may keep process 1 from anything else
const COUNT_SHARE = 20; // one part of the time in so many is for counting
const HASTE_SHARE = 4; // the same where the limit may be passed already
const CHEAP_MS = TICK_MS / COUNT_SHARE; // a count that takes no longer is made with every tick
const COUNT_ANYWAY_MS = 2000; // what is sparse, or no file, does not move the free space
const MOVED_PART = 8; // of what is left to the limit
const HIDDEN_MS = 3000; // for how long something must be kept from the counts to be believed to be hidden
const SUSPICION_MS = 500; // until the next count where it is
const LOOK_MS = 1000; // between two looks whether anything is left that could write
const SAMPLE_MS = 200;
const LATE_COUNT_MS = 250;
const FULL_COUNT_MS = 5000;
const FULL = { times: 2, bytes: 512 << 20, files: MANY_FILES }; // of the limit, and more than that

// What a run may add when the limit was passed before it began, so that it can delete.
const ALLOWANCE = { bytes: 1 << 20, files: 64 };

const fits = (usage, limit) => usage.bytes <= limit.bytes && usage.files <= limit.files;
const plus = (a, b) => ({ bytes: a.bytes + b.bytes, files: a.files + b.files });

/**
 * Quota watches a work directory. onOver({bytes, diskBytes, files, hider, isHidden}) is called when the session's own
 * code has taken it over the limit, or process hider, if that is not 0, hides what it has open, or with isHidden when
 * it keeps moving or locking folders, or sending open files, so that they cannot be counted; code that slept while it
 * was filled has not.
 * Where it is full, which is far over the limit, the run that goes on is to blame, and between runs who holds
 * what is too much or works while more is added.
 * session.pids() lists the processes of that code, session.hasPrograms() tells whether any are there beside
 * its kernels, session.now() gives the time by the clock of files. It watches from begin, and stops by itself
 * when nothing is left that writes.
 */
class Quota {
  #known = { bytes: 0, diskBytes: 0, files: 0, hider: 0, isHidden: false }; // as of the last count
  #allowed;
  #timer = null;
  #tally = null;
  #turn = 0; // how many runs have begun or ended
  #inRun = false;
  #begunAt = 0; // when the last run began
  #since = Infinity; // when the last turn was, by the clock of files
  #fitAt = Infinity; // that turn, or when a later count under the limit began
  #activity; // since that turn
  #notedAt = -Infinity;
  #settled = true; // what the last run left is known
  #stirred = new Map(); // as of the last look
  #full = null; // {usage, times} since the turn, from where fills looks for what was added to a full directory
  #lookAt = 0;
  #countedAt = -Infinity;
  #cost = 0;
  #hiddenAt = Infinity; // since when the counts have found that something is kept from them
  #sure = null; // {bytes, files, free} as of the last count that has found nothing of the kind
  #free = null; // as of the last count that has ended, from before it began

  constructor(root, limit, session, onOver) {
    this.root = root;
    this.limit = { bytes: limit.bytes || Infinity, files: limit.files || Infinity };
    this.full = { diskBytes: FULL.times * this.limit.bytes + FULL.bytes, files: FULL.times * this.limit.files + FULL.files };
    this.session = session;
    this.onOver = onOver;
    this.#activity = new Activity(session.now());
    this.#allowed = this.limit;
  }

  /** begin tells that a run begins, at since by the clock of files. */
  begin(since) {
    this.#turnOver(since);
    this.#inRun = true;
    this.#begunAt = performance.now();
    this.#free ??= freeSpace(this.root);
    this.#sure ??= { bytes: 0, files: 0, free: this.#free }; // what has come since is all that may be hidden
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
    this.#turnOver(this.session.now() + TICK_MS); // what the run did last may look as if it came a moment later
    this.#inRun = false;
    this.#settled = false;
    return isOver ? this.#known : null;
  }

  /**
   * refused gives the usage where so much is there already that no code may run any more, and null otherwise:
   * one run after the other could add a little.
   */
  refused() {
    const isNew = this.#countedAt === -Infinity; // others may have written
    if (!isNew && !this.#isFull && !this.#mayBeFull()) return null;
    this.#measureNow(isNew ? LATE_COUNT_MS : FULL_COUNT_MS);
    if (!this.#isFull) return null;
    this.#settled = false;
    this.#watch(); // a kernel may hold what is too much
    return this.#known;
  }

  #turnOver(since) {
    this.#turn++;
    this.#since = this.#fitAt = since;
    this.#full = null;
    this.#activity = new Activity(since);
    this.#notedAt = performance.now();
  }

  /** glance looks whether a kernel has begun to do something by itself. It is for a timer that exists anyway. */
  glance() {
    if (this.#timer === null && this.#stirs()) this.#watch();
  }

  #watch() {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
  }

  #tick() {
    const now = performance.now();
    if (now - this.#notedAt >= SAMPLE_MS) this.#note();
    if (this.#tally !== null) return;
    if (!this.#inRun && this.#settled && now >= this.#lookAt) {
      this.#lookAt = now + LOOK_MS;
      if (!this.#stirs() && !this.session.hasPrograms()) {
        clearInterval(this.#timer);
        this.#timer = null;
        this.#hiddenAt = Infinity;
        return;
      }
    }
    if (this.#isDue(now)) this.#count();
  }

  #isDue(now) {
    const isHidden = this.#hiddenAt < Infinity;
    const isFirst = this.#inRun && this.#countedAt < this.#begunAt;
    const hastes = isHidden || this.#mayBeOver();
    // Files with holes do not move the free space: the first count in a run is to see what it begins with.
    const since = isFirst && !hastes ? this.#begunAt : this.#countedAt;
    if (now - since < (hastes || isFirst ? HASTE_SHARE : COUNT_SHARE) * this.#cost) return false;
    const passed = now - this.#countedAt;
    return isFirst || (isHidden && passed >= SUSPICION_MS) || this.#cost < CHEAP_MS || passed >= COUNT_ANYWAY_MS || this.#hasMoved();
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
    return this.#isOverWith(this.#known, this.#free, free);
  }

  // mayHideTooMuch tells the same of what was counted last without a doubt: code that makes and deletes files
  // all the time looks as if it hid them, and takes nothing.
  #mayHideTooMuch(free) {
    const before = this.#sure?.free ?? null;
    return free === null || before === null || this.#isOverWith(this.#sure, before, free);
  }

  #isOverWith(known, before, free) {
    return ['bytes', 'files'].some((unit) => known[unit] + before[unit] - free[unit] > this.limit[unit]);
  }

  #mayBeFull() {
    const { bytes, files } = freeSpace(this.root) ?? { bytes: 0, files: 0 };
    const before = this.#free ?? { bytes, files };
    return this.#known.diskBytes + before.bytes - bytes > this.full.diskBytes || this.#known.files + before.files - files > this.full.files;
  }

  get #isFull() {
    return this.#known.diskBytes > this.full.diskBytes || this.#known.files > this.full.files;
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
    const began = this.session.now();
    this.#tally = this.#newTally();
    this.#tally.inSlices(SLICE_MS, (tally) => {
      this.#newUnnamed().inSlices(SLICE_MS, (unnamed) => {
        this.#tally = null;
        this.#take(tally, unnamed, free);
        // What was counted partly before a run and partly in it accuses nobody: others may have deleted
        // in between what was too much.
        if (this.#judge(tally, unnamed, turn === this.#turn, began)) this.onOver(this.#known);
      });
    });
  }

  #newUnnamed() {
    // Process 1 keeps the files of output open, which the session's code may delete.
    return new Unnamed(this.root, [...this.session.pids(), process.pid], this.#since);
  }

  #countNow() {
    const began = this.session.now();
    const { tally, unnamed } = this.#measureNow(LATE_COUNT_MS);
    return this.#judge(tally, unnamed, true, began);
  }

  #measureNow(ms) {
    const free = freeSpace(this.root);
    const tally = this.#newTally();
    const isWhole = tally.step(ms);
    tally.close();
    const unnamed = this.#newUnnamed();
    if (!unnamed.step(ms) || !isWhole) unnamed.isSure = false;
    this.#take(tally, unnamed, free);
    return { tally, unnamed };
  }

  #take(tally, unnamed, free) {
    const now = performance.now();
    const isSure = !tally.locked && !tally.moving && unnamed.isSure;
    this.#hiddenAt = isSure ? Infinity : Math.min(this.#hiddenAt, now);
    if (isSure) this.#sure = { bytes: tally.bytes + unnamed.bytes, files: tally.files, free };
    this.#known = {
      bytes: tally.bytes + unnamed.bytes,
      diskBytes: tally.diskBytes + unnamed.diskBytes,
      files: tally.files,
      hider: unnamed.hider,
      isHidden: now - this.#hiddenAt >= HIDDEN_MS && (tally.locked || this.#mayHideTooMuch(free)),
    };
    this.#free = free;
    this.#cost = tally.spentMs + unnamed.spentMs;
    this.#countedAt = now;
  }

  // judge tells whether the session's code has gone over what it may; counted in a piece is what no run
  // began or ended under.
  #judge(tally, unnamed, inOnePiece, began) {
    if (this.#known.hider !== 0) return true;
    if (this.#known.isHidden) {
      this.#hiddenAt = Infinity; // whoever is left has as long again
      return this.#hasSuspects(unnamed) || this.#stirs();
    }
    if (!inOnePiece) return false;
    if (!this.#inRun) this.#settled = true;
    if (this.#isFull) return this.#hasSuspects(unnamed) || this.#fills();
    if (fits(this.#known, this.limit)) {
      this.#allowed = this.limit;
      this.#fitAt = Math.max(this.#fitAt, began);
      return false;
    }
    if (fits(this.#known, this.#allowed)) return false;
    const allowed = this.#allowed;
    this.#allowed = plus(this.#known, ALLOWANCE);
    this.#note();
    const wasAwake = this.#activity.covers(this.#fitAt, Infinity);
    // Files without a name are those of the session's own processes, asleep or not.
    const isHeld = unnamed.bytes > 0 && fits({ bytes: tally.bytes, files: tally.files }, allowed);
    if (!isHeld && !wasAwake) return false;
    // A long write changes a file's time when it begins: what has changed is looked for in the whole run.
    const { bytes, files } = tally.changed((from, to) => this.#activity.covers(from, to));
    return !fits({ bytes: bytes + unnamed.changedBytes, files }, ALLOWANCE);
  }

  // hasSuspects tells whether a run, a program or a holder of files without a name is there: they are to blame
  // for what is far too much or cannot be counted, awake or not.
  #hasSuspects(unnamed) {
    return this.#inRun || unnamed.bytes > ALLOWANCE.bytes || this.session.hasPrograms();
  }

  // fills tells whether a kernel has worked since it was full while more was added. Every kernel works a little
  // after its run, and another container may be who adds.
  #fills() {
    const usage = { bytes: this.#known.diskBytes, files: this.#known.files };
    const now = { usage, times: this.#processorTimes() };
    const before = this.#full ?? now;
    const isAllowed = fits(usage, plus(before.usage, ALLOWANCE));
    if (!isAllowed || fits(usage, before.usage)) this.#full = now;
    return !isAllowed && hasRun(before.times, now.times);
  }

  // It takes a millisecond.
  #note() {
    this.#notedAt = performance.now();
    const from = this.session.now();
    const times = this.#processorTimes();
    this.#activity.note(from, times, this.session.now());
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
    const { bsize, bfree, ffree, files } = fs.statfsSync(path);
    // How many files there could be is no fixed number everywhere; minus those that there are is.
    return { bytes: bsize * bfree, files: ffree - files };
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

module.exports = { Quota, processorTimes };
