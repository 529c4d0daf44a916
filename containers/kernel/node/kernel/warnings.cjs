'use strict';
/* Node's warnings: the first of a kind is shown at once, the number of the others at the end of the run. */

const { safeText } = require('./inspect.cjs');
const { setImmediate } = require('./builtins.cjs');

/** Warnings replaces Node's own listener, which shows each one. It leaves out experimental features, as the kernel itself may use one. */
class Warnings {
  #write;

  /** owner returns the run that a warning belongs to; write(run, fd, bytes) prints. */
  constructor(owner, write) {
    this.#write = write;
    const [show] = process.listeners('warning');
    process.removeListener('warning', show);
    process.on('warning', (warning) => {
      if (warning?.name === 'ExperimentalWarning') return;
      const run = owner();
      const kind = `${warning?.name}${warning?.code ? ` [${warning.code}]` : ''}`;
      const key = warning?.code ? kind : `${kind}: ${safeText(() => warning.message).replace(/\d+/g, '0')}`;
      const shown = run?.warnings.get(key);
      if (shown === undefined) {
        run?.warnings.set(key, { kind, times: 1 });
        return show(warning);
      }
      shown.times++;
      if (run.finished) setImmediate(() => this.showRepeated(run));
    });
  }

  showRepeated(run) {
    for (const shown of run.warnings.values()) {
      if (shown.times > 1) this.#write(run, 2, Buffer.from(`(${shown.kind}: came ${shown.times} times, told once)\n`));
      shown.times = 0;
    }
  }
}

module.exports = { Warnings };
