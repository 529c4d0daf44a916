// The rules for the JavaScript of this folder. ESLint itself is in lint/.
import { createRequire } from 'node:module';
import { read, withRequired } from './required.mjs';

const require = createRequire(new URL('lint/package.json', import.meta.url));
const js = require('@eslint/js');

const readonly = (names) => Object.fromEntries(names.map((name) => [name, 'readonly']));

// A kernel captures the globals that it uses, because user code may declare the same
// names: its list is what no-undef lets it use.
const list = /^const GLOBALS = \[([^]*?)\n\]/m.exec(read('common/source.cjs'))[1];
const captured = [...list.matchAll(/'(\w+)'/g)].map(([, name]) => name);

// Where user code runs beside ours.
const kernelFiles = ['main.cjs', ...withRequired('kernel/kernel.cjs', 'watcher/watcher.cjs')];

const rules = {
  ...js.configs.recommended.rules,
  eqeqeq: 'error',
  'no-shadow': 'error',
  'no-var': 'error',
  'object-shorthand': 'error',
  'prefer-const': 'error',
  'prefer-template': 'error',
  'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
};

const commonGlobals = ['Buffer', 'TextDecoder', 'URL', 'clearInterval', 'clearTimeout', 'console', 'performance', 'process', 'setImmediate', 'setInterval', 'setTimeout'];

export default [
  { ignores: ['lint/node_modules/', 'node_modules/'] },
  {
    files: kernelFiles,
    languageOptions: { sourceType: 'commonjs', globals: readonly([...captured, 'undefined', 'module']) },
    // Language built-ins count as globals too, so that one that is not captured is found.
    rules: { ...rules, 'no-restricted-globals': ['error', ...uncaptured()] },
  },
  {
    files: ['**/*.cjs'],
    ignores: kernelFiles,
    languageOptions: { sourceType: 'commonjs', globals: readonly([...commonGlobals, 'require', 'module', '__dirname']) },
    rules,
  },
  // What boot.cjs gives it.
  { files: ['main.cjs'], languageOptions: { globals: readonly(['boot']) } },
  // Control characters are what it is about.
  { files: ['supervisor/screen.cjs'], rules: { 'no-control-regex': 'off' } },
  // What is in front of it when it runs.
  { files: ['join.cjs'], languageOptions: { globals: readonly(['parts']) } },
  {
    files: ['**/*.mjs'],
    languageOptions: { sourceType: 'module', globals: readonly(commonGlobals) },
    rules,
  },
];

/** uncaptured lists the globals of this Node that a kernel does not capture. */
function uncaptured() {
  const allowed = new Set([...captured, 'undefined']);
  return Object.getOwnPropertyNames(globalThis).filter((name) => !allowed.has(name));
}
