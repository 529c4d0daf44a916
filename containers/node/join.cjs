// How the files of a program become one source. In front of this stands, written by whoever
// joins them, `const parts = {"PATH"(module, require) { TEXT }, …};`, the file that is the
// program first, by their paths from this folder; a file finds the others by require, as it
// would beside them.
const { posix } = require('node:path');

const loaded = new Map();

const load = (path) => {
  if (!loaded.has(path)) {
    const module = { exports: {} };
    loaded.set(path, module);
    const beside = (name) => (name[0] === '.' ? load(posix.join(posix.dirname(path), name)) : require(name));
    parts[path](module, beside);
  }
  return loaded.get(path).exports;
};

load(Object.keys(parts)[0]);
