'use strict';
/* Loaded packages and files, with a note if another version is there: Node keeps the loaded one. */

const { readFileSync, statSync } = require('./builtins.cjs');

const PACKAGE = /^(.*\/node_modules)\/((?:@[^/]+\/)?[^/]+)\//;

/** Loaded knows the packages that code loaded; the session's own ones are installed in workDir. */
class Loaded {
  #workDir;
  #folder;
  #packages = new Map(); // by their folders
  #files = new Map(); // the times of code's own modules
  #scripts = []; // those of JavaScript that this run read
  #stamp;

  constructor(workDir) {
    this.#workDir = workDir;
    this.#folder = `${workDir}/node_modules`;
    this.#stamp = this.#readStamp();
  }

  /** add records the file of an import or a require; isAsked: the code itself asked, and no package. */
  add(file, isAsked) {
    const [, place, name] = PACKAGE.exec(file) ?? [];
    if (name === undefined) return;
    const folder = `${place}/${name}`;
    if (!this.#packages.has(folder)) {
      const version = versionIn(folder);
      this.#packages.set(folder, { name, version, told: version, isAsked: false });
    }
    this.#packages.get(folder).isAsked ||= isAsked;
  }

  /** read records that a file is read as a module. */
  read(file) {
    if (!/\.[^/]*(?<!\.json)$/.test(file)) return;
    this.#files.set(file, timeOf(file));
    if (/\.[cm]?js$/.test(file)) this.#scripts.unshift(file);
  }

  /** begin begins a run. */
  begin() {
    this.#scripts = [];
  }

  /** scripts lists the files of JavaScript that this run read, the last first. */
  scripts() {
    return this.#scripts;
  }

  /** edits returns a line for each module that was changed since it was read, once. */
  edits() {
    const changed = [...this.#files].filter(([file, time]) => ![time, undefined].includes(timeOf(file)));
    return changed.map(([file]) => {
      this.#files.delete(file);
      return `note: ${file.replace(`${this.#workDir}/`, '')} has changed, and stays loaded as it was until a new interpreter starts (fresh: true has one).`;
    });
  }

  /** changes returns a line for each package that another version was installed of since the last call. */
  changes() {
    const stamp = this.#readStamp();
    if (stamp === this.#stamp) return [];
    this.#stamp = stamp;
    const lines = [];
    for (const [folder, found] of this.#packages) {
      // Code that asks again gets the loaded one; a package in another's folder is another one.
      const now = versionIn(found.isAsked ? `${this.#folder}/${found.name}` : folder) ?? versionIn(folder);
      if (now === undefined || now === found.told) continue;
      found.told = now;
      if (now === found.version) continue;
      lines.push(`note: ${found.name} ${now} is installed, and ${found.name} stays loaded as ${found.version} until a new interpreter starts (fresh: true has one).`);
    }
    return lines;
  }

  // npm writes its own list anew whenever it changes anything.
  #readStamp() {
    return timeOf(`${this.#folder}/.package-lock.json`);
  }
}

function timeOf(file) {
  try {
    return statSync(file).mtimeMs;
  } catch {
    return undefined; // it is not there, or code lets nothing look
  }
}

function versionIn(folder) {
  try {
    return JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')).version;
  } catch {
    return undefined; // it is not there
  }
}

module.exports = { Loaded };
