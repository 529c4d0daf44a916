// What all of the page is made with. Whatever comes from a sandbox is hostile: it becomes text nodes and nothing else.

export const byId = id => document.getElementById(id);

// visible shows what would hide or turn around what stands beside it: control characters, and those of writing direction.
export const visible = text => String(text ?? "").replace(/\r\n/g, "\n")
	.replace(/[^\P{Cc}\t\n]/gu, c => c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd")
	.replace(/[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");

// make makes an element with properties and children; children that are not elements are texts.
export function make(name, properties, ...children) {
	const element = Object.assign(document.createElement(name), properties);
	element.append(...children.map(c => c instanceof Node ? c : visible(c)));
	return element;
}

export const button = (label, properties, act) => {
	const made = make("button", {type: "button", ...properties}, label);
	made.addEventListener("click", () => act(made));
	return made;
};

// arrange gives a list these children. What is in its place stays there: moved elements scroll to their beginning.
export function arrange(list, children) {
	children.forEach((child, at) => { if (list.children[at] !== child) list.insertBefore(child, list.children[at] ?? null); });
	while (list.children.length > children.length) list.lastChild.remove();
}

// fillTable shows a table of cells, or none.
export const fillTable = (id, rows) => {
	byId(id).replaceChildren(...rows.map(cells => make("tr", {}, ...cells.map(c => make("td", {}, c)))));
	byId(id).closest("table").hidden = !rows.length;
};

export const isGiven = value => value !== null && value !== undefined;

export const bytes = n => {
	if (!isGiven(n)) return "";
	const units = ["B", "kB", "MB", "GB", "TB"];
	let at = 0;
	for (; n >= 1000 && at < units.length - 1; at++) n /= 1000;
	return `${at && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
};

export const seconds = s => {
	if (s < 1) return `${Math.round(s * 1000)} ms`;
	if (s < 60) return `${s.toFixed(1)} s`;
	if (s < 3600) return `${Math.round(s / 60)} min`;
	return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
};

const ago = when => {
	const s = Math.max(0, (Date.now() - new Date(when)) / 1000);
	if (s < 5) return "just now";
	return s < 60 ? `${Math.round(s)} s ago` : `${seconds(s)} ago`;
};

// time is a moment that says how long ago it was, and goes on doing so.
export const time = when => make("time", {dateTime: when, title: new Date(when).toLocaleString()}, ago(when));
setInterval(() => document.querySelectorAll("time").forEach(t => { t.textContent = ago(t.dateTime); }), 5000);

// copyButton copies a text as it is shown.
export const copyButton = (what, text) => button("Copy", {className: "copy", title: `Copy ${what}`}, async pressed => {
	try {
		await navigator.clipboard.writeText(text());
		pressed.textContent = "Copied";
	} catch { // browsers have no clipboard for pages without TLS
		pressed.textContent = "Select it to copy";
	}
	setTimeout(() => { pressed.textContent = "Copy"; }, 2000);
});

// address is where something of /v1 is for the page.
export const address = (...names) => `/ui/v1/${names.map(encodeURIComponent).join("/")}`;

// ask gets JSON, and throws what the server said is wrong.
export async function ask(url, options) {
	const answer = await fetch(url, options);
	if (answer.status === 401) location.reload();
	const text = await answer.text();
	if (answer.ok) return JSON.parse(text);
	let wrong;
	try { wrong = JSON.parse(text); } catch { wrong = {message: text, hint: ""}; }
	throw Object.assign(new Error(`${wrong.message} ${wrong.hint}`), {code: wrong.code});
}

export const order = (method, url, body) => ask(url, {method, headers: {"X-Sandbox-Page": "1"}, body: body instanceof Blob ? body : body && JSON.stringify(body)});

// say shows what went wrong, or that nothing did.
export const say = (text, where = "wrong") => {
	byId(where).textContent = visible(text);
	if (where === "wrong") byId("done").textContent = "";
};
export const attempt = async (work, where) => { say("", where); try { await work(); } catch (e) { say(e.message, where); } };
