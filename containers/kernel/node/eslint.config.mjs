// The rules for all JavaScript: of containers/ and, from the top of the repository, of examples and pages. ESLint itself is
// in lint/.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(new URL('lint/package.json', import.meta.url));
const js = require('@eslint/js');

const readonly = (names) => Object.fromEntries(names.map((name) => [name, 'readonly']));

// A kernel captures the globals that it uses, because user code may declare the same
// names: its list is what no-undef lets it use.
const main = readFileSync(new URL('main.cjs', import.meta.url), 'utf8');
const list = /^const GLOBALS = \[([^]*?)\n\]/m.exec(main)[1];
const captured = [...list.matchAll(/'(\w+)'/g)].map(([, name]) => name);

// Where user code runs beside ours.
const kernelFiles = ['kernel/node/{common,kernel,watcher}/*.cjs'];

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
const browserGlobals = ['Blob', 'EventSource', 'Node', 'ResizeObserver', 'URL', 'URLSearchParams', 'addEventListener', 'confirm', 'document', 'fetch', 'innerWidth', 'location', 'navigator', 'parent', 'setInterval', 'setTimeout', 'clearTimeout'];

export default [
  { ignores: ['**/node_modules/'] },
  {
    files: kernelFiles,
    languageOptions: { sourceType: 'commonjs', globals: readonly([...captured, 'undefined', 'module', 'require']) },
    // Language built-ins count as globals too, so that one that is not captured is found.
    rules: { ...rules, 'no-restricted-globals': ['error', ...uncaptured()] },
  },
  {
    files: ['**/*.cjs'],
    ignores: kernelFiles,
    languageOptions: { sourceType: 'commonjs', globals: readonly([...commonGlobals, 'require', 'module', '__dirname', '__filename']) },
    rules,
  },
  {
    files: ['**/*.mjs'],
    languageOptions: { sourceType: 'module', globals: readonly(commonGlobals) },
    rules,
  },
  {
    files: ['internal/**/*.js', 'tools/**/*.js'],
    languageOptions: { sourceType: 'module', globals: readonly(browserGlobals) },
    rules,
  },
];

/** uncaptured lists the globals of this Node that a kernel does not capture. */
function uncaptured() {
  const allowed = new Set([...captured, 'undefined']);
  return Object.getOwnPropertyNames(globalThis).filter((name) => !allowed.has(name));
}
