// Process 1, which speaks to the server, cannot be read, written to or held up.
//
// Tried: its memory, descriptors and environment under /proc; its priority.
const os = require('node:os');

let shown = 0; // what gVisor shows of a process to the others of its user

// Under gVisor the attempt may also come through, which is told at the end.
function hidden(attempt, what) {
  try {
    refused(attempt, what);
  } catch (error) {
    if (!FACTS.gvisor) throw error;
    shown += 1;
  }
}

for (const part of ['mem', 'pagemap', 'stack', 'task/1/mem']) {
  refused(() => fs.readSync(fs.openSync(`/proc/1/${part}`), Buffer.alloc(1)), `read ${part}`);
}
for (const part of ['maps', 'environ', 'auxv', 'syscall']) {
  hidden(() => fs.readSync(fs.openSync(`/proc/1/${part}`), Buffer.alloc(1)), `read ${part}`);
}
for (const part of ['mem', 'task/1/mem', 'clear_refs']) {
  refused(() => fs.openSync(`/proc/1/${part}`, 'r+'), `write ${part}`);
}
hidden(() => fs.openSync('/proc/1/oom_score_adj', 'r+'), 'write oom_score_adj');
for (const part of ['fd', 'fdinfo', 'map_files', 'task/1/fd']) hidden(() => fs.readdirSync(`/proc/1/${part}`), part);
for (const part of ['exe', 'cwd', 'root']) refused(() => fs.readlinkSync(`/proc/1/${part}`), part);
for (let fd = 0; fd < 256; fd++) {
  for (const flags of [fs.constants.O_RDONLY, fs.constants.O_WRONLY]) {
    hidden(() => fs.closeSync(fs.openSync(`/proc/1/fd/${fd}`, flags | fs.constants.O_NONBLOCK)), `descriptor ${fd}`);
  }
}
try {
  refused(() => os.setPriority(1, os.getPriority(1)), 'its priority');
} catch (error) {
  if (!FACTS.pod || FACTS.pod.seccomp) throw error;
  throw new Unenforced("the container runtime's default list lets code lower the priority of its session's other programs");
}
if (shown) {
  throw new Unenforced("gVisor lets the code open the descriptors of process 1, by which it can forge its own session's answers; its memory is closed");
}
