'use strict';
/* How a run ended, in the terms of the protocol. */

const { cutText } = require('../common/text.cjs');
const { clamp, isObject, isText } = require('../common/values.cjs');

const EXIT_CODES = { completed: 0, failed: 1, timed_out: 124, cancelled: 130, killed: 137 };

/** doneFrame tells how a run ended, with at most limit bytes of each text. */
function doneFrame(run, outcome, artifacts, limit) {
  return {
    type: 'done',
    id: run.id,
    ...outcome,
    result: isText(outcome.result) ? cutText(outcome.result, limit) : null,
    error: readError(outcome.error, limit),
    stdout: run.out.report(limit),
    stderr: run.err.report(limit),
    artifacts: artifacts.list,
    artifacts_total: artifacts.total,
    displays_total: run.displays,
    duration_ms: run.elapsedMs,
  };
}

/** withinBytes gives as many of the first artifacts as have at most limit bytes of paths. */
function withinBytes(artifacts, limit) {
  let left = limit;
  return artifacts.filter(({ path }) => (left -= Buffer.byteLength(path)) >= 0);
}

/** judge turns a kernel's word about how a run ended into the protocol's status. */
function judge(run, frame) {
  // Interrupted code can still end in its own way, for example by the error of a program
  // that was killed under it.
  const own = frame.outcome === 'completed' ? 'completed' : 'failed';
  const status = run.reason === 'quota' ? 'failed' : run.reason || own;
  if (frame.outcome !== 'exited' || run.reason !== '') return { status, exitCode: EXIT_CODES[status] };
  const exitCode = clamp(frame.exitCode, 1, 0, 255);
  return { status: exitCode === 0 ? 'completed' : 'failed', exitCode };
}

function readError(error, limit) {
  if (!isObject(error)) return null;
  const text = (value, most) => (isText(value) ? cutText(value, most) : '');
  return { name: text(error.name, 200), message: text(error.message, limit), traceback: text(error.traceback, limit) };
}

module.exports = { EXIT_CODES, doneFrame, judge, withinBytes };
