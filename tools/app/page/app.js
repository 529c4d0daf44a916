// The view of a result: its tables and figures. Whatever is in the result, and in the files that it names, comes from hostile
// code: it becomes text nodes and images, and never markup, a style or the name of a tool.

// Bounds of a table, and of how many there are.
const pageRows = 50, mostColumns = 100, mostCells = 2e6, mostText = 32 << 20, mostLetters = 2000, mostTabs = 50;
const byId = id => document.getElementById(id);
const list = value => Array.isArray(value) ? value : [];
const count = n => n.toLocaleString("en");

// visible shows what would hide or turn around what stands beside it, and keeps one line.
const visible = text => String(text ?? "").replace(/[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, c => "\t\r\n".includes(c) ? " " : "\ufffd");

const node = said => said instanceof Node ? said : visible(said);

// make makes an element; children that are not elements are texts.
function make(name, properties, ...children) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...children.map(node));
	return made;
}
const button = (label, onclick, properties) => make("button", {type: "button", onclick, ...properties}, label);
const say = (...said) => byId("note").replaceChildren(...said.map(node));

// The host's side: JSON-RPC in messages, to and from the window around this one alone.

const waiting = new Map();
let last = 0, host = {}, input = {}, about = {}, open = null;

const post = message => parent.postMessage({jsonrpc: "2.0", ...message}, "*");
const request = (method, params) => new Promise((resolve, reject) => {
	waiting.set(++last, {resolve, reject});
	post({id: last, method, params});
});

const methods = new Map([
	["ping", () => {}],
	["ui/resource-teardown", () => leave()],
	["ui/notifications/tool-input", p => { input = p.arguments ?? {}; }],
	["ui/notifications/tool-result", p => show(p)],
	["ui/notifications/tool-cancelled", () => say("Cancelled")],
	["ui/notifications/host-context-changed", p => dress(p)],
]);

addEventListener("message", ({source, data}) => {
	if (source !== parent || data?.jsonrpc !== "2.0") return;
	const {id, method, params, result, error} = data, asked = waiting.get(id);
	if (method) {
		const act = methods.get(method);
		act?.(params ?? {});
		if (id !== undefined) post({id, ...(act ? {result: {}} : {error: {code: -32601, message: "Method not found"}})});
	} else if (asked) {
		waiting.delete(id);
		if (error) asked.reject(new Error(error.message));
		else asked.resolve(result ?? {});
	}
});

// dress makes the view look as the host does.
function dress(context) {
	const {style} = document.documentElement;
	if (context?.theme) style.colorScheme = context.theme;
	for (const [name, value] of Object.entries(context?.styles?.variables ?? {})) style.setProperty(name, value);
}

// read asks for a part of a file of the result's own session. It is the only tool that is ever called.
async function read(path, part) {
	const session_id = about.session_id ?? input.session_id;
	const answer = await request("tools/call", {name: "read_artifact", arguments: {path, ...(session_id && {session_id}), ...part}});
	const [{text = ""} = {}, image] = list(answer.content), meta = answer._meta?.["code-sandbox-mcp/result"];
	if (answer.isError || !meta || part.unit && meta.encoding === "base64") throw new Error(answer.isError ? text : "It is no text.");
	if (meta.changed) throw new Error("The file is changing.");
	// The text begins with a line about the file.
	return {meta, text: text.slice(text.indexOf("\n") + 1 || text.length), image: picture(image)};
}

const picture = c => c?.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(c.mimeType)
	? {src: `data:${c.mimeType};base64,${c.data}`, mimeType: c.mimeType, blob: c.data} : null;

// save opens the file itself, where there is a link to it, or has the host or the browser keep the picture that is shown.
async function save({name, link}, {src, ...content} = {}) {
	const download = name.split("/").pop();
	if (link) await request("ui/open-link", {url: link});
	else if (!host.downloadFile) make("a", {href: src, download}).click();
	else if ((await request("ui/download-file", {contents: [{type: "resource", resource: {uri: `file:///${encodeURIComponent(download)}`, ...content}}]})).isError) say("It was not saved.");
}

// Figures.

async function figure(tab) {
	if (!tab.image) {
		let image, offset = 0, text = "";
		do {
			const part = await read(tab.path, tab.isSVG ? {unit: "bytes", offset} : {});
			({image, meta: {next_offset: offset}} = part);
			text += part.text;
		} while (tab.isSVG && offset && text.length < 2 << 20);
		// A browser runs no script of an image, and loads nothing for it.
		if (tab.isSVG && !offset) image = {src: `data:image/svg+xml,${encodeURIComponent(text)}`, mimeType: "image/svg+xml", text};
		if (!image) throw new Error("It is too large, or no picture.");
		tab.image = image;
	}
	if (open !== tab) return;
	// 0: fitted
	let scale = 0;
	const img = make("img", {src: tab.image.src, alt: visible(tab.name), onerror: () => say("It is no picture.")});
	const box = make("div", {className: "box", tabIndex: 0}, img);
	const own = () => img.naturalWidth || 600, by = n => () => zoom((scale || img.clientWidth / own()) * n), shown = make("span");
	const zoom = to => {
		scale = to && Math.min(8, Math.max(.1, to));
		box.classList.toggle("zoomed", scale > 0);
		img.style.width = scale ? `${Math.min(16000, own() * scale)}px` : "";
		shown.textContent = scale ? `${Math.round(scale * 100)} %` : "";
	};
	byId("shown").replaceChildren(make("div", {className: "bar"}, button("−", by(2 / 3)), button("+", by(1.5)),
		button("1:1", () => zoom(1)), button("Fit", () => zoom(0)), button("Save", () => tried(tab, () => save(tab, tab.image))), shown), box);
}

// Tables. A parser takes a file's text piece by piece, and gives whole rows to add; end is called after the last.

function separated(name, add) {
	let delimiter = name.endsWith(".tsv") ? "\t" : "", row = [], cell = "", isQuoted = false, wasQuoted = false;
	const endCell = () => { if (row.length < mostColumns) row.push(cell); cell = ""; };
	const endRow = () => { endCell(); if (row.length > 1 || row[0]) add(row); row = []; };
	return {
		take(text) {
			const head = text.split("\n", 1)[0], often = d => head.split(d).length;
			delimiter ||= [",", ";", "\t", "|"].reduce((a, b) => often(b) > often(a) ? b : a);
			for (const c of text) {
				if (c === '"' && (isQuoted || wasQuoted || !cell)) {
					if (wasQuoted) cell += c;
					wasQuoted = isQuoted;
					isQuoted = !isQuoted;
					continue;
				}
				wasQuoted = false;
				if (!isQuoted && c === delimiter) endCell();
				else if (!isQuoted && c === "\n") endRow();
				else if ((isQuoted || c !== "\r") && cell.length < mostLetters) cell += c;
			}
		},
		end: endRow,
	};
}

const written = value => (typeof value === "object" && value ? JSON.stringify(value) : String(value ?? "")).slice(0, mostLetters);

function jsonLines(columns, add) {
	let rest = "";
	const places = new Map(), line = text => {
		if (!text.trim()) return;
		let value = text;
		try { value = JSON.parse(text); } catch { /* shown as it is */ }
		const row = [];
		for (const [name, v] of Object.entries(value && typeof value === "object" ? value : {value})) {
			if (!places.has(name) && places.size < mostColumns) places.set(name, columns.push(name.slice(0, mostLetters)) - 1);
			if (places.has(name)) row[places.get(name)] = written(v);
		}
		add(Array.from(row, written));
	};
	return {
		take(text) {
			const lines = (rest + text).split("\n");
			rest = lines.pop();
			if (rest.length > 1 << 20) throw new Error("A line is too long.");
			lines.forEach(line);
		},
		end: () => line(rest),
	};
}

// table shows what was read of one table, and reads on as it is looked at.
function table(tab) {
	const path = tab.path ?? "", isJSON = /\.(jsonl|ndjson)$/i.test(path), rows = tab.rows ?? [];
	let columns = tab.columns ?? [], isWhole = Boolean(tab.rows), letters = 0, goal = 0, reading = null, isStopped = false, before = null;
	let order = rows, page = 0, by = -1, isDown = false, filter = "", timer = 0;
	const add = row => { if (isJSON || columns.length) rows.push(row); else columns = row; };
	const parser = isJSON ? jsonLines(columns, add) : separated(path, add);
	const isFull = () => letters > mostText || rows.length * columns.length > mostCells, isArranged = () => by >= 0 || filter !== "";
	const stop = () => { isStopped = true; };

	async function readOn() {
		while (!isWhole && !isStopped && !isFull() && rows.length < goal) {
			const {meta, text} = await read(path, {unit: "bytes", offset: before?.next_offset ?? 0});
			if (before && before.modified !== meta.modified) throw new Error("The file has changed.");
			before = meta;
			letters += text.length;
			parser.take(text);
			isWhole = !meta.next_offset;
			if (isWhole) parser.end();
			else if (open === tab) say(`${count(rows.length)} rows are read. `, button("Stop", stop));
		}
	}
	function arrange() {
		const wanted = filter.toLowerCase(), words = new Intl.Collator("en"), sign = isDown ? -1 : 1;
		order = wanted ? rows.filter(row => row.some(cell => cell.toLowerCase().includes(wanted))) : rows;
		if (by < 0) return;
		// Numbers stand before words, and what is empty last, either way.
		const key = row => { const c = (row[by] ?? "").trim(); return c ? isNaN(c) ? [1, c] : [0, Number(c)] : [2]; };
		order = order.map(row => [...key(row), row]).sort(([k, a], [l, b]) => k - l || sign * (k ? k === 1 && words.compare(a, b) : a - b)).map(e => e.at(-1));
	}
	// look reads what is needed for a page, and shows it. While it reads, another only raises how much.
	const look = to => tried(tab, async () => {
		goal = Math.max(goal, isArranged() ? Infinity : (to + 1) * pageRows + 1);
		isStopped = false;
		reading ??= readOn().finally(() => { reading = null; goal = 0; });
		await reading;
		arrange();
		page = Math.max(0, Math.min(to, Math.ceil(order.length / pageRows) - 1));
		if (open === tab) draw();
	});

	const place = make("span"), body = make("tbody"), heads = make("tr");
	const search = make("input", {type: "search", placeholder: "Filter", oninput() {
		clearTimeout(timer);
		timer = setTimeout(() => { filter = search.value; look(0); }, 250);
	}});
	const pages = [["«", "First", () => 0], ["‹", "Previous", () => page - 1], ["›", "Next", () => page + 1], ["»", "Last", () => Infinity]]
		.map(([label, ariaLabel, to]) => button(label, () => look(to()), {ariaLabel}));
	const bar = make("div", {className: "bar"}, search, ...pages, place, ...(tab.link ? [button("Save", () => tried(tab, () => save(tab)))] : []));
	const box = make("div", {className: "box", tabIndex: 0}, make("table", {}, make("thead", {}, heads), body));

	function draw() {
		const from = page * pageRows, some = order.slice(from, from + pageRows), end = from + some.length, isAll = isWhole || isFull() || isArranged();
		const focused = [...heads.children].indexOf(document.activeElement.parentNode);
		heads.replaceChildren(make("th"), ...columns.map((name, at) => {
			const [ariaSort, sign] = at !== by ? ["none", ""] : isDown ? ["descending", " ▼"] : ["ascending", " ▲"];
			return make("th", {ariaSort}, button(name.slice(0, 100) + sign, () => {
				[by, isDown] = at !== by ? [at, false] : isDown ? [-1, false] : [at, true];
				look(0);
			}));
		}));
		heads.children[focused]?.firstChild.focus();
		body.replaceChildren(...some.map((row, i) => make("tr", {}, make("th", {}, count(from + i + 1)), ...columns.map((_, at) => {
			const cell = row[at] ?? "", rest = cell.slice(200) && "…";
			return make("td", {className: cell.trim() && !isNaN(cell) ? "number" : "", title: cell.length > 40 ? visible(cell) : ""}, cell.slice(0, 200) + rest);
		}))));
		place.textContent = `${count(some.length && from + 1)}–${count(end)} of ${count(order.length)}${isAll ? "" : " or more"} rows`;
		pages.forEach((b, i) => { b.disabled = i < 2 ? !page : isAll && end >= order.length; });
		if (!box.isConnected) byId("shown").replaceChildren(bar, box);
		say(columns.length < mostColumns ? "" : `Only ${mostColumns} columns are shown. `,
			isWhole || !isFull() && !isArranged() ? "" : `Only ${count(rows.length)} rows are read. `,
			isWhole || isFull() || !isArranged() ? "" : button("Read on", () => look(0)));
	}
	return {look: () => look(page), stop};
}

// The result.

// tried says why something cannot be done, and offers to begin anew.
async function tried(tab, act) {
	try {
		await act();
	} catch (e) {
		if (open === tab) say(`${e.message} `, button("Retry", () => { tab.table = null; enter(tab); }));
	}
}

function leave() {
	open?.table?.stop();
	open = null;
	byId("shown").replaceChildren();
	say();
}

function enter(tab) {
	leave();
	open = tab;
	for (const b of byId("tabs").children) b.ariaCurrent = b.tab === tab;
	if (tab.isTable) (tab.table ??= table(tab)).look();
	else if (tab.image || tab.isImage) tried(tab, () => figure(tab));
	else byId("shown").append(button("Open", () => tried(tab, () => save(tab))));
}

// rowsOf are those that exec_sql has in its answer.
function rowsOf(text) {
	try {
		const {columns, rows} = JSON.parse(text);
		return [{name: "Result", isTable: true, columns: columns.slice(0, mostColumns).map(c => c.name), rows: rows.map(row => row.slice(0, mostColumns).map(written))}];
	} catch { return []; }
}

function show(result) {
	leave();
	about = result._meta?.["code-sandbox-mcp/result"] ?? {};
	const content = list(result.content), text = content.find(c => c.type === "text")?.text ?? "", images = content.map(picture).filter(Boolean);
	const files = [about, ...list(about.artifacts)].filter(f => f.path).map(({path, download_url, store_url}) => ({
		path, name: path, link: host.openLinks && (download_url ?? store_url),
		isSVG: /\.svg$/i.test(path), isImage: /\.(png|jpe?g|gif|webp|svg)$/i.test(path), isTable: /\.([ct]sv|jsonl|ndjson)$/i.test(path),
	}));
	// The images of an answer are files too: of several, those that its text says are shown.
	const shown = text.split("\n[shown]\n").at(-1).split("\n[")[0].split("\n"), pictures = files.filter(f => f.isImage && !f.isSVG);
	let named = pictures[1] ? shown.flatMap(line => line.includes("(not attached:") ? [] : pictures.filter(f => line.startsWith(`${f.path}  `))) : pictures;
	if (named.length !== images.length) named = [];
	const tabs = [
		...images.map((image, i) => ({name: `Figure ${i + 1}`, ...named[i], image})),
		...(about.connection && !about.path ? rowsOf(text) : []),
		...(host.serverTools ? files.filter(f => !named.includes(f) && (f.isImage || f.isTable || f.link)) : []),
	].slice(0, mostTabs);
	byId("tabs").replaceChildren(...tabs.map(tab => button(tab.name, () => enter(tab), {title: visible(tab.name), tab})));
	if (tabs.length) enter(tabs[0]);
	else say(text.split("\n", 1)[0].slice(0, 200));
}

const begun = await request("ui/initialize", {protocolVersion: "2026-01-26", appInfo: {name: "code-sandbox-mcp", version: "1"}, appCapabilities: {availableDisplayModes: ["inline"]}});
host = begun.hostCapabilities ?? {};
dress(begun.hostContext);
post({method: "ui/notifications/initialized"});
new ResizeObserver(() => post({method: "ui/notifications/size-changed", params: {width: innerWidth, height: document.body.offsetHeight}})).observe(document.body);
