// Build step of the Node image: prints the language, its version and the packages that
// package.json in the folder given as the only argument asks for, with the versions
// installed there, as one line of JSON.
'use strict';

const { readFileSync } = require('node:fs');
const { join } = require('node:path');

// versions lists what folder/package.json asks for. It throws when a package is missing.
function versions(folder) {
  const read = (...parts) => JSON.parse(readFileSync(join(folder, ...parts, 'package.json'), 'utf8'));
  const packages = Object.keys(read().dependencies)
    .sort()
    .map((name) => ({ name, version: read('node_modules', name).version }));
  return { language: 'JavaScript', version: process.versions.node, packages };
}

module.exports = { versions };

if (require.main === module) {
  process.stdout.write(JSON.stringify(versions(process.argv[2])));
}
