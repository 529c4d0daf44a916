// Part of the Node image: has text on a canvas of @napi-rs/canvas fall back to the fonts that are there, letter by letter, as
// in a browser. By itself the package draws what the families in `font` lack as boxes, and what names none that is there
// by whichever font it has found first. The package's own file calls this at its end.
'use strict';

const DEFAULT = '10px sans-serif';
const FIRST = ['DejaVu Sans', 'WenQuanYi Micro Hei']; // they have the most letters
const LAST = ['Symbola']; // it has letters too, none of them good to read

// Families that are not there, and are meant to look so.
const MONO = /mono|courier|consol|menlo/i;
const SERIF = /(?<!sans[- ]?)serif|times|georgia|garamond|palatino|cambria/i;

function addFallback({ GlobalFonts, createCanvas }) {
  const rank = (family) => (FIRST.includes(family) ? FIRST.indexOf(family) - FIRST.length : Number(LAST.includes(family)));
  const others = GlobalFonts.families.map(({ family }) => family).sort((a, b) => rank(a) - rank(b));
  const fallback = (...families) => [...families, ...others].map((family) => `, "${family}"`).join('');
  const [sans, serif, mono] = [fallback(), fallback('DejaVu Serif'), fallback('DejaVu Sans Mono')];
  const fallbackOf = (font) => (MONO.test(font) ? mono : SERIF.test(font) ? serif : sans);

  const context = Object.getPrototypeOf(createCanvas(1, 1).getContext('2d'));
  const { get, set } = Object.getOwnPropertyDescriptor(context, 'font');
  Object.defineProperty(context, 'font', {
    configurable: true,
    enumerable: true,
    get() {
      const font = get.call(this);
      for (const added of [serif, mono, sans]) {
        const before = font.slice(0, -added.length);
        if (font.endsWith(added) && fallbackOf(before) === added) return before;
      }
      return font;
    },
    set(font) {
      try {
        set.call(this, font + fallbackOf(font));
      } catch {
        set.call(this, font); // says what is wrong with it
      }
    },
  });
  for (const name of ['fillText', 'strokeText', 'measureText']) {
    const draw = context[name];
    context[name] = {
      [name](...args) {
        if (get.call(this) === DEFAULT) this.font = DEFAULT; // it is a new context, or was reset
        return draw.apply(this, args);
      },
    }[name];
  }
}

module.exports = { addFallback };
