'use strict';
/* display() of user code: pictures and other rich values. */

const fs = require('node:fs');
const pathApi = require('node:path');
const { closeSync, mkdirSync, openSync, promiseThen } = require('./builtins.cjs');
const { asBytes, writeAll } = require('./bytes.cjs');
const { inspect, whole } = require('./inspect.cjs');
const { textOf } = require('./markup.cjs');
const { isText } = require('../common/text.cjs');
const { MIME_TYPE } = require('../common/wire.cjs');

const IMAGE_TYPES = [
  { mime: 'image/png', extension: 'png', magic: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
  { mime: 'image/jpeg', extension: 'jpg', magic: [0xff, 0xd8, 0xff] },
  { mime: 'image/gif', extension: 'gif', magic: [0x47, 0x49, 0x46, 0x38] },
  { mime: 'image/webp', extension: 'webp', magic: [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50] },
];
const FILE_EXTENSIONS = { 'image/svg+xml': 'svg', 'text/html': 'html', 'text/markdown': 'md', 'application/json': 'json' };
const SHORT_HTML = 1000; // characters: of longer HTML the text is shown
const JUPYTER_DISPLAY = Symbol.for('Jupyter.display');

/** imageType returns the MIME type of an image by its first bytes. */
function imageType(bytes) {
  return IMAGE_TYPES.find(({ magic }) => magic.every((byte, i) => byte === null || bytes[i] === byte));
}

/**
 * toBundle turns a value given to display() into {MIME type: text or bytes}, or null if it is
 * only text. It may return a promise of one.
 */
function toBundle(value) {
  const bytes = asBytes(value);
  if (bytes !== null) {
    const type = imageType(bytes);
    return type === undefined ? null : { [type.mime]: bytes };
  }
  if (isText(value)) return textBundle(value);
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return null;
  return formOf(value)?.() ?? null;
}

// formOf finds out how to make the bundle of an object, or returns null. Looking may call getters and
// traps of the value's own: one that refuses is not asked further.
function formOf(value) {
  try {
    if (hasMethod(value, JUPYTER_DISPLAY)) return () => value[JUPYTER_DISPLAY]();
    if (hasMethod(value, 'toBuffer')) return () => bundleOfBuffer(value);
    if (value instanceof Blob) return () => promiseThen(value.arrayBuffer(), toBundle);
    const keys = Object.keys(value);
    return keys.length > 0 && keys.every((key) => MIME_TYPE.test(key)) ? () => value : null;
  } catch {
    return null;
  }
}

// A proxy is asked only for names that it lists: its get trap may refuse unknown names, or
// make something of each.
function hasMethod(value, name) {
  return name in value && typeof value[name] === 'function';
}

/** displaysItself reports whether an object knows its own richer form, or is a canvas. */
function displaysItself(value) {
  try {
    return hasMethod(value, JUPYTER_DISPLAY) || (hasMethod(value, 'getContext') && hasMethod(value, 'toBuffer'));
  } catch {
    return false; // a getter or a trap that refuses
  }
}

function textBundle(text) {
  const url = /^data:(image\/[a-z0-9.+-]+);base64,/.exec(text.slice(0, 100));
  if (url !== null) return { [url[1]]: text.slice(url[0].length) };
  return /^\s*(<\?xml[^>]*>\s*)?<svg[\s>]/.test(text.slice(0, 1000)) ? { 'image/svg+xml': text } : null;
}

// A canvas draws to a PNG when asked for one; sharp and its like answer with a promise.
function bundleOfBuffer(value) {
  const drawn = typeof value.getContext === 'function' ? value.toBuffer('image/png') : value.toBuffer();
  return typeof drawn?.then === 'function' ? promiseThen(Promise.resolve(drawn), toBundle) : toBundle(drawn);
}

/** Displayer makes display frames, and keeps each image in full below output/. */
class Displayer {
  #next = 1;

  constructor(kernel) {
    this.kernel = kernel;
  }

  /** show displays one value for run. It returns a promise when the value's form takes time to make. */
  show(run, value, options) {
    const bundle = toBundle(value);
    if (typeof bundle?.then !== 'function') return this.#showBundle(run, value, bundle, options);
    const shown = promiseThen(Promise.resolve(bundle), (made) => this.#showBundle(run, value, made, options));
    run.displays.push(shown);
    return shown;
  }

  #showBundle(run, value, bundle, options) {
    if (bundle === null || bundle === undefined) {
      const text = isText(value) ? value : whole((more) => inspect(value, more), this.kernel.settings.outputBytes);
      return this.kernel.write(run, 1, Buffer.from(`${text}\n`));
    }
    const frame = { type: 'display', id: run.id, mime: '', size: 0, alt: String(options?.alt ?? '') };
    const mime = bestType(Object.keys(bundle));
    const blob = mime === undefined ? null : this.#add(frame, mime, bundle[mime], run);
    if (run.finished) return this.#tellLate(run, frame, Object.keys(bundle));
    if (!this.kernel.send(frame, blob)) this.kernel.send(frame);
  }

  #tellLate(run, { path }, types) {
    if (run.id !== '') this.kernel.write(run, 1, Buffer.from(`[${types.join(', ')}${path === undefined ? '' : ` in ${path}`}]\n`));
  }

  // add returns the bytes to send, or null where they are in a file alone.
  #add(frame, mime, content, run) {
    frame.mime = mime;
    if (mime.startsWith('image/') && mime !== 'image/svg+xml') return this.#addImage(frame, mime, content);
    const bytes = Buffer.from(isText(content) ? content : (asBytes(content) ?? JSON.stringify(content) ?? ''));
    const { outputBytes } = this.kernel.settings;
    frame.size = bytes.length;
    if (mime === 'text/html' && this.#addPage(frame, bytes, run)) return null;
    if (mime === 'image/svg+xml' || bytes.length > outputBytes) this.#save(frame, bytes, FILE_EXTENSIONS[mime] ?? 'txt');
    return bytes.length <= outputBytes ? bytes : null;
  }

  // addPage keeps HTML that tells a reader little as it is: a page that works by scripts, or a longer one, whose text is printed.
  #addPage(frame, bytes, run) {
    const page = bytes.toString();
    const hasScripts = page.includes('<script');
    if (page.length <= SHORT_HTML && !hasScripts) return false;
    this.#save(frame, bytes, 'html');
    const text = hasScripts || run.finished ? '' : textOf(page);
    if (text !== '') this.kernel.write(run, 1, Buffer.from(`${text}\n`));
    return true;
  }

  #addImage(frame, mime, content) {
    const bytes = isText(content) ? Buffer.from(content, 'base64') : asBytes(content);
    if (bytes === null) throw new TypeError(`display: ${mime} has to be base64 text or bytes`);
    this.#save(frame, bytes, imageType(bytes)?.extension ?? 'bin');
    return bytes.length <= this.kernel.settings.imageBytes ? bytes : null;
  }

  #save(frame, bytes, extension) {
    if (frame.path !== undefined) return;
    const { workDir } = this.kernel.settings;
    mkdirSync(pathApi.join(workDir, 'output'), { recursive: true });
    const stem = extension === 'html' ? 'page' : extension === 'md' || extension === 'txt' ? 'display' : 'image';
    for (;;) {
      const path = `output/${stem}-${this.#next++}.${extension}`;
      const fd = createNew(pathApi.join(workDir, path));
      if (fd < 0) continue;
      try {
        writeAll(fd, bytes);
      } finally {
        closeSync(fd);
      }
      frame.path = path;
      frame.size = bytes.length;
      return;
    }
  }
}

/** bestType is the one to show of the types that an object offers: a picture before anything else. */
function bestType(mimes) {
  const known = mimes.filter((mime) => MIME_TYPE.test(mime));
  return known.find((mime) => IMAGE_TYPES.some((type) => type.mime === mime)) ?? known[0];
}

/** createNew opens a file that did not exist for writing, or returns -1 when something is there. */
function createNew(path) {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  try {
    return openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
  } catch (error) {
    if (error.code === 'EEXIST') return -1;
    throw error;
  }
}

module.exports = { Displayer, displaysItself };
