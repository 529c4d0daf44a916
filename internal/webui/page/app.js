// The page. Whatever comes from a sandbox is hostile: it becomes text nodes and nothing else.
"use strict";

const byId = id => document.getElementById(id);

// visible shows what would hide or turn around what stands beside it: control characters, and those of writing direction.
const visible = text => String(text ?? "").replace(/\r\n/g, "\n")
	.replace(/[^\P{Cc}\t\n]/gu, c => c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd")
	.replace(/[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");

// make makes an element with properties and children; children that are not elements are texts.
function make(name, properties, ...children) {
	const element = Object.assign(document.createElement(name), properties);
	element.append(...children.map(c => c instanceof Node ? c : visible(c)));
	return element;
}

const isGiven = value => value !== null && value !== undefined;

const bytes = n => {
	if (!isGiven(n)) return "";
	const units = ["B", "kB", "MB", "GB", "TB"];
	let at = 0;
	for (; n >= 1000 && at < units.length - 1; at++) n /= 1000;
	return `${at && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
};

const seconds = s => {
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
const time = when => make("time", {dateTime: when, title: new Date(when).toLocaleString()}, ago(when));
setInterval(() => document.querySelectorAll("time").forEach(t => { t.textContent = ago(t.dateTime); }), 5000);

const address = (what, parameters) => `/ui/${what}?${new URLSearchParams(parameters)}`;

// ask gets JSON, and throws what the server said is wrong.
async function ask(url, options) {
	const answer = await fetch(url, options);
	if (answer.status === 401) location.reload();
	if (answer.status === 204) return null;
	const text = await answer.text();
	if (answer.ok) return JSON.parse(text);
	let wrong;
	try { wrong = JSON.parse(text); } catch { wrong = {message: text, hint: ""}; }
	throw new Error(`${wrong.message} ${wrong.hint}`);
}

const order = (what, body) => ask(`/ui/${what}`, {
	method: "POST", headers: {"Content-Type": "application/json", "X-Sandbox-Page": "1"}, body: JSON.stringify(body),
});

// say shows what went wrong, or that nothing did.
const say = text => { byId("wrong").textContent = visible(text); };
const attempt = async work => { say(""); try { await work(); } catch (e) { say(e.message); } };

let chosen = null;       // the session that is shown
let sessions = new Map();
let source = null;
let live = {};
const shown = new Map(); // by run: its item in the list, and what is known of it

const here = "this server";

function listen() {
	source?.close();
	const opened = new EventSource(address("events", {session: chosen ?? ""}));
	source = opened;
	opened.onopen = () => { byId("state").textContent = "live"; };
	opened.onerror = async () => {
		if (source !== opened) return;
		byId("state").textContent = "the server does not answer; trying again …";
		if (opened.readyState === EventSource.CLOSED) {
			const page = await fetch("/").catch(() => null);
			if (page) setTimeout(() => location.reload(), 5000); else setTimeout(listen, 5000);
		}
	};
	const on = (kind, show) => opened.addEventListener(kind, e => { if (source === opened) show(JSON.parse(e.data)); });
	on("sessions", showSessions);
	on("runs", showRuns);
	on("live", showLive);
	on("network", showNetwork);
}

function showSessions(list) {
	sessions = new Map(list.sessions.map(s => [s.session_id, s]));
	byId("note").textContent = visible(list.note || (list.sessions.length ? "" : "There are none."));
	const focused = document.activeElement?.dataset?.session;
	byId("sessions").replaceChildren(...list.sessions.map(s => {
		const link = make("a", {href: `#/${encodeURIComponent(s.session_id)}`},
			make("span", {className: "text"}, s.session_id), make("small", {}, describe(s)));
		link.dataset.session = s.session_id;
		if (s.session_id === chosen) link.setAttribute("aria-current", "true");
		return make("li", {}, link);
	}));
	if (focused) [...document.querySelectorAll("nav a")].find(a => a.dataset.session === focused)?.focus();
	showFacts();
}

const describe = s => {
	const kernels = s.kernels.filter(k => k.state !== "not started").map(k => `${k.language} ${k.state}`).join(", ");
	return (s.owner === "none" ? "open in no server" : `open in ${s.owner}`) + (kernels ? `; ${kernels}` : "");
};

function showFacts() {
	const s = sessions.get(chosen);
	byId("session").hidden = !s;
	byId("none").hidden = !!s;
	byId("none").textContent = visible(chosen === null ? "Choose a session." : `There is no session ${chosen} now.`);
	if (!s) return;
	byId("name").textContent = visible(s.session_id);
	byId("facts").replaceChildren(visible(describe(s)), "; begun ", time(s.created), "; used ", time(s.last_used),
		isGiven(s.size_bytes) ? `; files: ${bytes(s.size_bytes)}` : "");
	byId("elsewhere").textContent = {
		"another server": "Another server has this session open. Output is shown here once its run is over; output as it comes, the files and the network log are known to that server alone, and runs are cancelled there.",
		"none": "No server has this session open. Its runs are shown; its files and its network log are not.",
	}[s.owner] ?? "";
	byId("close").disabled = s.owner === "another server";
	byId("files").hidden = byId("network").hidden = s.owner !== here;
}

function choose() {
	if (location.hash && !location.hash.startsWith("#/")) return; // it leads to a part of the page
	chosen = decodeURIComponent(location.hash.slice(2)) || null;
	for (const item of shown.values()) item.element.remove();
	shown.clear();
	live = {};
	say("");
	byId("runs-note").textContent = "";
	byId("files").open = byId("network").open = false;
	byId("network-note").textContent = byId("files-note").textContent = "";
	byId("network-rows").replaceChildren();
	document.querySelectorAll("nav a").forEach(a => a.toggleAttribute("aria-current", a.dataset.session === chosen));
	showFacts();
	listen();
}

const toned = status => ({completed: "good", running: "busy"})[status] ?? "bad";

function showRuns(list) {
	byId("runs-note").textContent = !list.total ? "Nothing has run here yet."
		: list.total > list.runs.length ? `The newest ${list.runs.length} of ${list.total}.` : "";
	const first = shown.size === 0;
	const ended = list.runs.some(run => run.status !== "running" && shown.get(run.run_id)?.run.status === "running");
	const there = new Set(list.runs.map(run => run.run_id));
	for (const [id, item] of shown) {
		if (!there.has(id)) { item.element.remove(); shown.delete(id); }
	}
	let before = null;
	for (const run of list.runs) {
		let item = shown.get(run.run_id);
		if (!item) {
			item = newItem(run.run_id);
			shown.set(run.run_id, item);
			if (before) before.after(item.element); else byId("runs").prepend(item.element);
		}
		before = item.element;
		if (JSON.stringify(item.run) !== JSON.stringify(run)) {
			item.run = run;
			item.summary.replaceChildren(make("strong", {className: toned(run.status)}, run.status.replaceAll("_", " ")), " ",
				make("span", {className: "text"}, run.language), " ", make("span", {className: "dim"}, time(run.started),
					run.duration_ms ? `, ${seconds(run.duration_ms / 1000)}` : ""), " ",
				make("code", {className: "text"}, run.code.trim().split("\n")[0]));
			if (item.details.open) fill(item);
		}
	}
	if (first && list.runs.length) shown.get(list.runs[0].run_id).details.open = true;
	if (ended && byId("files").open) showFiles();
}

function newItem(id) {
	const item = {id, run: null, summary: make("summary"), body: make("div"), output: null};
	item.details = make("details", {}, item.summary, item.body);
	item.details.addEventListener("toggle", () => { if (item.details.open) fill(item); });
	item.element = make("li", {id: `run-${id}`}, item.details);
	return item;
}

// fill shows all of a run; while it runs, what comes is shown as it comes.
async function fill(item) {
	const session = chosen, asked = item.run;
	try {
		const run = await ask(address("run", {session, run: item.id}));
		if (chosen !== session || item.run !== asked) return;
		item.output = make("div");
		showResult(item, live[item.id] ?? run);
		item.body.replaceChildren(make("p", {className: "dim"}, item.id), make("pre", {}, run.code), ...cancelButton(item), item.output);
		if (run.hint) item.body.append(make("p", {className: "note text"}, run.hint));
	} catch (e) {
		item.body.replaceChildren(make("p", {className: "wrong text"}, e.message));
	}
}

function cancelButton(item) {
	if (item.run.status !== "running") return [];
	if (sessions.get(chosen)?.owner !== here) {
		return [make("p", {className: "note"}, "What it prints is not known here while it runs.")];
	}
	const button = make("button", {type: "button", className: "danger"}, "Cancel the run");
	button.addEventListener("click", () => attempt(async () => {
		button.disabled = true;
		try { await order("cancel", {session: chosen, run: item.id}); } catch (e) { button.disabled = false; throw e; }
	}));
	return [make("p", {}, button)];
}

function showLive(runs) {
	live = runs;
	for (const [id, result] of Object.entries(runs)) {
		const item = shown.get(id);
		if (item?.output && item.run.status === "running") showResult(item, result);
	}
}

function showResult(item, r) {
	const parts = [];
	const output = (label, stream) => {
		if (!stream.head && !stream.tail) return;
		const cut = stream.omitted_bytes > 0 ? `\n… ${bytes(stream.omitted_bytes)} left out${stream.path ? `, all of it is in ${stream.path}` : ""} …\n` : "";
		parts.push(make("p", {className: "dim"}, label), make("pre", {}, stream.head + cut + stream.tail));
	};
	output("output", r.stdout);
	output("errors", r.stderr);
	if (isGiven(r.value)) parts.push(make("p", {className: "dim"}, "value"), make("pre", {}, r.value));
	if (r.error) parts.push(make("pre", {className: "bad"}, r.error.traceback || `${r.error.name}: ${r.error.message}`));
	r.displays.forEach((d, at) => {
		if (d.figure) {
			const image = make("img", {src: address("figure", {session: chosen, run: item.id, at}), alt: visible(d.alt || "a figure of this run"), loading: "lazy"});
			parts.push(make("figure", {}, image, make("figcaption", {className: "dim text"}, d.path)));
		} else if (d.text) {
			parts.push(make("pre", {}, d.text));
		} else if (d.path) {
			parts.push(make("p", {className: "text"}, `shown: ${d.path}`));
		}
	});
	if (r.artifacts.length) {
		parts.push(make("p", {className: "dim"}, "files"), make("ul", {}, ...r.artifacts.map(f => make("li", {className: "text"}, fileLink(f), " ", bytes(f.size_bytes)))));
	}
	for (const note of r.notes ?? []) parts.push(make("p", {className: "note text"}, note));
	item.output.replaceChildren(...parts);
}

const fileLink = f => sessions.get(chosen)?.owner === here
	? make("a", {href: address("file", {session: chosen, path: f.path}), target: "_blank", rel: "noopener"}, f.path) : make("span", {}, f.path);

const fillTable = (id, rows) => {
	byId(id).replaceChildren(...rows.map(cells => make("tr", {}, ...cells.map(c => make("td", {}, c)))));
	byId(id).closest("table").hidden = !rows.length;
};

const showFiles = () => attempt(async () => {
	const session = chosen;
	const list = await ask(address("files", {session}));
	if (chosen !== session) return;
	byId("files-note").textContent = !list.total ? "There are none."
		: (list.total > list.files.length ? `The newest ${list.files.length} of ${list.total}. ` : "") + (list.complete ? "" : "There are more than were looked at. ") +
		(list.links ? "" : "This server gives no links to them.");
	fillTable("file-rows", list.files.map(f => [list.links ? fileLink(f) : f.path, bytes(f.size_bytes), time(f.modified)]));
});

const verdict = e => {
	if (e.allowed) return e.status ? `allowed, ${e.status}` : "allowed";
	return e.rule ? `refused: ${e.rule}` : "refused";
};

function showNetwork(log) {
	byId("network-note").textContent = !log.total ? "Nothing was sent out, and nothing refused."
		: log.total > log.requests.length ? `The newest ${log.requests.length} of ${log.total}.` : "";
	fillTable("network-rows", log.requests.map(e => [time(e.time), `${e.kind} ${e.method ?? ""}`, e.host + (e.path ?? ""),
		make("span", {className: e.allowed ? "good" : "bad"}, verdict(e)),
		bytes(e.sent_bytes), bytes(e.received_bytes)]));
}

byId("files").addEventListener("toggle", () => { if (byId("files").open) showFiles(); });
byId("reload").addEventListener("click", showFiles);
byId("close").addEventListener("click", () => {
	byId("closing-name").textContent = visible(chosen);
	byId("closing").returnValue = "";
	byId("closing").dataset.session = chosen;
	byId("closing").showModal();
});
byId("closing").addEventListener("close", e => {
	const answer = e.target.returnValue;
	if (answer) attempt(() => order("close", {session: e.target.dataset.session, keep_files: answer === "keep"}));
});
addEventListener("hashchange", choose);
choose();
