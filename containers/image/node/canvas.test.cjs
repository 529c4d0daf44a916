'use strict';

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { addFallback } = require('./canvas.cjs');

/** Context keeps a font as the package does, which refuses what it cannot read. */
class Context {
  native = '10px sans-serif';

  get font() {
    return this.native;
  }

  set font(font) {
    if (!/^[\w ]*\d+px /.test(font)) throw new Error(`[${font}] is not valid font style`);
    this.native = font;
  }

  fillText() {
    return this.native;
  }

  strokeText() {
    return this.native;
  }

  measureText() {
    return this.native;
  }
}

const GlobalFonts = { families: ['Symbola', 'Garuda', 'WenQuanYi Micro Hei', 'DejaVu Sans'].map((family) => ({ family })) };
addFallback({ GlobalFonts, createCanvas: () => ({ getContext: () => new Context() }) });
const OTHERS = ', "DejaVu Sans", "WenQuanYi Micro Hei", "Garuda", "Symbola"';

describe('families are followed by those that are there', () => {
  for (const [font, added] of Object.entries({
    '16px Arial': OTHERS,
    '16px sans-serif': OTHERS,
    'bold 16px "MS Sans Serif"': OTHERS,
    '16px Georgia, serif': `, "DejaVu Serif"${OTHERS}`,
    '16px "Courier New", serif': `, "DejaVu Sans Mono"${OTHERS}`,
    [`16px Arial${OTHERS}`]: OTHERS,
  })) {
    test(font, () => {
      const context = new Context();
      context.font = font;
      assert.deepEqual([context.native, context.font], [font + added, font]);
    });
  }
});

test('a context that has no font of its own has them too', () => {
  for (const name of ['fillText', 'strokeText', 'measureText']) {
    assert.equal(new Context()[name]('text', 0, 0), `10px sans-serif${OTHERS}`);
    assert.equal(Context.prototype[name].name, name);
  }
});

test('what is no font is refused in its own words', () => {
  const context = new Context();
  for (const font of ['bad', undefined]) assert.throws(() => (context.font = font), { message: `[${font}] is not valid font style` });
  assert.equal(context.font, '10px sans-serif');
});
