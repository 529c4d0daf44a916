// Colours for code: words, strings, numbers and comments, which is as much as a person needs to find their way.
import {make, visible} from "./dom.js";

const line = quote => `${quote}(?:\\\\[^]|[^${quote}\\\\\\n])*${quote}?`;
const long = quote => `${quote}(?:\\\\[^]|(?!${quote})[^\\\\])*(?:${quote})?`;
const word = "[\\p{L}_$][\\p{L}\\p{N}_$]*";
const number = "(?:0[xXoObB][\\da-fA-F_]+|\\d[\\d_]*(?:\\.[\\d_]*)?(?:[eE][+-]?\\d+)?)n?";

const language = (comment, string, keywords) => ({
	tokens: new RegExp(`(?<comment>${comment})|(?<string>${string})|(?<word>${word})|(?<number>${number})`, "gu"),
	keywords: new Set(keywords.split(" ")),
});

const languages = {
	python: language("#.*", `(?:[rbfuRBFU]{1,2}(?=["']))?(?:${long('"""')}|${long("'''")}|${line('"')}|${line("'")})`,
		"and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None " +
		"nonlocal not or pass raise return True try while with yield match case"),
	javascript: language("//.*|/\\*[^]*?(?:\\*/|$)", `${long("`")}|${line('"')}|${line("'")}`,
		"as async await break case catch class const continue debugger default delete do else export extends false finally for from function " +
		"if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield"),
};

// maxColoured is how long code may be to be coloured.
const maxColoured = 50_000;

// highlight returns code as texts and coloured elements.
export function highlight(code, of) {
	const text = visible(code), {tokens, keywords} = languages[of] ?? {};
	if (!tokens || text.length > maxColoured) return [text];
	const parts = [];
	let at = 0;
	for (const found of text.matchAll(tokens)) {
		const {comment, string, number: digits} = found.groups;
		const kind = (comment && "comment") || (string && "string") || (digits && "number") || (keywords.has(found[0]) && "keyword");
		if (!kind) continue;
		parts.push(text.slice(at, found.index), make("span", {className: kind}, found[0]));
		at = found.index + found[0].length;
	}
	return [...parts, text.slice(at)];
}
