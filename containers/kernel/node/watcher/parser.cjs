'use strict';
/* The parser of cells, which is Node's own copy of acorn. */

/** cellParser returns a parser that knows import attributes, which acorn does from 8.15; Debian's Node brings an older one. */
function cellParser({ Parser, version, tokTypes }) {
  const [major, minor] = version.split('.').map(Number);
  if (major > 8 || (major === 8 && minor >= 15)) return Parser;
  return class extends Parser {
    #declaration = null; // with a source and perhaps attributes

    parseImport(node) {
      return this.#declare(node, () => super.parseImport(node));
    }

    parseExport(node, ...rest) {
      return this.#declare(node, () => super.parseExport(node, ...rest));
    }

    #declare(node, parse) {
      this.#declaration = node;
      const declared = parse();
      this.#declaration = null;
      return declared;
    }

    // The end of a declaration behind its source.
    semicolon() {
      const node = this.#declaration;
      if (node?.source && this.type === tokTypes._with) {
        this.next();
        node.attributes = this.parseObj(false).properties;
      }
      return super.semicolon();
    }
  };
}

/** syntaxError reads a parser's error: acorn puts the position behind the message. */
function syntaxError(error) {
  const message = String(error?.message ?? error).replace(/ \(\d+:\d+\)$/, '');
  const line = error?.loc?.line;
  const place = line === undefined ? {} : { line, column: error.loc.column + 1 };
  return { name: 'SyntaxError', message, isNamed: error?.isNamed === true, ...place };
}

module.exports = { cellParser, syntaxError };
