'use strict';
/* Loaded packages, with a note if another version is installed over one: Node keeps the loaded one. */

const { readFileSync, statSync } = require('./builtins.cjs');

const PACKAGE = /^(.*\/node_modules)\/((?:@[^/]+\/)?[^/]+)\//;

/** Loaded knows the packages that code loaded; the session's own ones are installed in workDir. */
class Loaded {
  #folder;
  #packages = new Map(); // by their folders
  #stamp;

  constructor(workDir) {
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
    try {
      return statSync(`${this.#folder}/.package-lock.json`).mtimeMs;
    } catch {
      return undefined; // it is not there, or code lets nothing look
    }
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
