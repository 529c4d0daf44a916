'use strict';
/* Functions as their source: whether a function can be made again of it, and making it. */

const vmApi = require('node:vm');

const sourceOf = (() => {}).call.bind(Function.prototype.toString);
const isClass = (f) => /^class\b/.test(sourceOf(f));

/** usesOthers reports whether a function with these scopes uses variables that are not global. The scope of a class holds its own name and private fields. */
function usesOthers(f, scopes) {
  const isOfClass = (names) => isClass(f) && names.every((name) => name === f.name || /^[#.]/.test(name));
  return !scopes.every(({ kind, names }) => kind === 'Script' || kind === 'Global' || isOfClass(names));
}

/** scopesOf returns the scopes of a function, or null where it is not JavaScript. Only V8's inspector knows them. */
function scopesOf(post, f) {
  const propertiesOf = (objectId) => {
    let found;
    post('Runtime.getProperties', { objectId, ownProperties: true }, (error, answer) => (found = answer));
    return found;
  };
  let id;
  Object.defineProperty(globalThis, '$probe', { value: f, configurable: true });
  post('Runtime.evaluate', { expression: '$probe', objectGroup: 'frozen' }, (error, { result }) => {
    id = propertiesOf(result.objectId).internalProperties?.find(({ name }) => name === '[[Scopes]]')?.value.objectId;
  });
  delete globalThis.$probe;
  const scopes = id === undefined ? null : propertiesOf(id).result.filter(({ name }) => /^\d+$/.test(name)).map(({ value: { description, objectId } }) => {
    const kind = description.replace(/ \(.*/, '');
    return { kind, names: kind === 'Block' || kind === 'Class' ? propertiesOf(objectId).result.map(({ name }) => name) : [description] };
  });
  post('Runtime.releaseObjectGroup', { objectGroup: 'frozen' });
  return scopes;
}

/** shapeOf tells which properties a function or a prototype has, but not their values. */
function shapeOf(object) {
  const shapes = Reflect.ownKeys(object).map((key) => {
    const { enumerable, writable, get, set } = Object.getOwnPropertyDescriptor(object, key);
    return [String(key), enumerable, writable, get && sourceOf(get), set && sourceOf(set)].join();
  });
  return shapes.sort().join('\n');
}

/** evaluate makes a function of its source, which may be that of a method. */
function evaluate(source, name) {
  const filename = `${name || 'function'}.js`;
  let made;
  try {
    made = new vmApi.Script(`(${source}\n)`, { filename, columnOffset: -1 }).runInThisContext();
  } catch (error) {
    if (!(error instanceof SyntaxError) || /^class\b/.test(source)) throw error;
    const holder = new vmApi.Script(`({${source}\n})`, { filename, columnOffset: -2 }).runInThisContext();
    made = holder[Reflect.ownKeys(holder)[0]];
  }
  if (typeof made !== 'function') throw new Error('it is no function');
  if (made.name !== name && Object.getOwnPropertyDescriptor(made, 'name')?.configurable !== false) Object.defineProperty(made, 'name', { value: name, configurable: true });
  return made;
}

module.exports = { evaluate, isClass, scopesOf, shapeOf, sourceOf, usesOthers };
