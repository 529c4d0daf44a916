'use strict';
/* What an init frame settles for all runs of a supervisor. */

const { clamp, isObject, isText } = require('../common/values.cjs');

/** parseInit reads an init frame; every field has a default, and every limit an upper bound. */
function parseInit(frame) {
  return {
    workDir: isText(frame.work_dir) && frame.work_dir.startsWith('/') ? frame.work_dir : '/mnt/data',
    env: isObject(frame.env) ? Object.fromEntries(Object.entries(frame.env).filter(([, v]) => isText(v))) : {},
    preload: Array.isArray(frame.preload) ? frame.preload.filter(isText) : [],
    idleMs: clamp(frame.idle_seconds, 0, 0, 1e6) * 1000,
    waitAfterEOF: frame.on_eof === 'wait',
    outputBytes: clamp(frame.output_bytes, 30_000, 64, 1 << 20),
    spoolBytes: clamp(frame.spool_bytes, 64 << 20, 0, 2 ** 40),
    imageBytes: clamp(frame.image_bytes, 1 << 20, 0, 5 << 20),
    maxDisplays: clamp(frame.max_displays, 20, 0, 1000),
    maxArtifacts: clamp(frame.max_artifacts, 100, 0, 5000),
    token: isText(frame.token) ? frame.token : '',
    volumeBytes: clamp(frame.volume_bytes, 0, 0, 2 ** 50),
    volumeFiles: clamp(frame.volume_files, 0, 0, 2 ** 40),
  };
}

module.exports = { parseInit };
