// How the files of a program become one source. In front of this stands, written by whoever
// joins them, `const parts = {"./NAME"(module, require) { TEXT }, …};`, the file that is the
// program first; a file finds the others by require, as it would beside them.
const loaded = new Map();

const load = (name) => {
  if (!Object.hasOwn(parts, name)) return require(name);
  if (!loaded.has(name)) {
    const module = { exports: {} };
    loaded.set(name, module);
    parts[name](module, load);
  }
  return loaded.get(name).exports;
};

load(Object.keys(parts)[0]);
