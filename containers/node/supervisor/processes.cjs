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
 * listProcesses gives every visible process as {pid, state, parent, started}: state by its letter in
 * proc(5), Z for a zombie, started in clock ticks.
 */
function listProcesses() {
  const processes = [];
  for (const name of listPids()) {
    const stat = readText(`/proc/${name}/stat`);
    // The name in parentheses is the process's own choice and may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields.length < 20) continue;
    processes.push({ pid: Number(name), state: fields[0], parent: Number(fields[1]), started: Number(fields[19]) });
  }
  return processes;
}

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

module.exports = { descendants, listPids, listProcesses, oomKills, readText, signal, ticksAgo };
