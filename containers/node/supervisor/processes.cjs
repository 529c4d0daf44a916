'use strict';
/* The processes of a container, as /proc tells of them. */

const fs = require('node:fs');

/** readText gives a small file's text, or '' when it cannot be read. */
function readText(path) {
  try {
    return fs.readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** listPids gives the numbers of all visible processes, as texts. */
function listPids() {
  return fs.readdirSync('/proc').filter((name) => name[0] >= '0' && name[0] <= '9');
}

/**
 * listProcesses gives every visible process as {pid, alive, parent, started}: a zombie is not alive, started is
 * in clock ticks.
 */
function listProcesses() {
  const processes = [];
  for (const name of listPids()) {
    const stat = readText(`/proc/${name}/stat`);
    // The name in parentheses is the process's own choice and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields.length < 20) continue;
    // A main thread that has ended looks like a zombie, and the others may go on.
    const alive = !'ZX'.includes(fields[0]) || Number(fields[17]) > 1;
    processes.push({ pid: Number(name), alive, parent: Number(fields[1]), started: Number(fields[19]) });
  }
  return processes;
}

/**
 * shownIn gives the folder in /proc that shows what a process has open, which is not that of a main thread
 * that has ended; '' where all of it has ended.
 */
function shownIn(pid) {
  const folder = `/proc/${pid}`;
  if (!hasEnded(folder)) return folder;
  let threads;
  try {
    threads = fs.readdirSync(`${folder}/task`);
  } catch {
    return '';
  }
  return threads.map((thread) => `${folder}/task/${thread}`).find((thread) => !hasEnded(thread)) ?? '';
}

/**
 * hasEnded tells whether the process, or thread, that has a folder in /proc has ended, or is just about to: one
 * that ends lets go of its program first, and no other is without one.
 */
function hasEnded(folder) {
  try {
    const stat = fs.readFileSync(`${folder}/stat`, 'latin1');
    if ('ZX'.includes(stat[stat.lastIndexOf(')') + 2])) return true;
    fs.readlinkSync(`${folder}/exe`);
    return false;
  } catch (error) {
    return isGone(error);
  }
}

/** isGone tells whether a process, or what it had open, is not there any more, by the error of a call about it. */
const isGone = ({ code }) => code === 'ENOENT' || code === 'ESRCH';

/** descendants gives the processes below pid, of those listed. */
function descendants(processes, pid) {
  const below = new Set([pid]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const entry of processes) {
      if (below.has(entry.parent) && !below.has(entry.pid)) {
        below.add(entry.pid);
        grown = true;
      }
    }
  }
  below.delete(pid);
  return processes.filter((entry) => below.has(entry.pid));
}

/** ticksAgo is the time ms milliseconds ago on the clock of listProcesses. */
function ticksAgo(ms) {
  const uptime = Number(readText('/proc/uptime').split(' ')[0]);
  return Math.floor(uptime * 100 - ms / 10) - 1;
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch {
    // It is gone already, which is what was wanted.
  }
}

const OOM_FILES = ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control']; // of cgroup v2 and v1
const oomText = Buffer.allocUnsafe(4096);
let oomFile = null; // stays open, because every run asks: -1 where there is none

/** oomKills counts the processes that the memory limit killed in this container, 0 when that cannot be read. */
function oomKills() {
  oomFile ??= openFirst(OOM_FILES);
  if (oomFile < 0) return 0;
  try {
    const size = fs.readSync(oomFile, oomText, 0, oomText.length, 0);
    return Number(/^oom_kill (\d+)$/m.exec(oomText.latin1Slice(0, size))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

function openFirst(paths) {
  for (const path of paths) {
    try {
      return fs.openSync(path);
    } catch {
      // Perhaps the next one.
    }
  }
  return -1;
}

module.exports = { descendants, hasEnded, isGone, listPids, listProcesses, oomKills, readText, shownIn, signal, ticksAgo };
