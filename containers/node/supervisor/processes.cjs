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

/**
 * listProcesses gives every visible process as {pid, state, parent, started}: state by its letter in
 * proc(5), Z for a zombie, started in clock ticks.
 */
function listProcesses() {
  const processes = [];
  for (const name of fs.readdirSync('/proc')) {
    if (name[0] < '0' || name[0] > '9') continue;
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

/** oomKills counts the processes that the memory limit killed in this container, 0 when that cannot be read. */
function oomKills() {
  const text = readText('/sys/fs/cgroup/memory.events') || readText('/sys/fs/cgroup/memory/memory.oom_control');
  return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
}

module.exports = { descendants, listProcesses, oomKills, readText, signal, ticksAgo };
