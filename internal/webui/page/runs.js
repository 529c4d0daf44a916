// The runs of the session that is shown.
import {address, arrange, ask, attempt, button, byId, bytes, copyButton, isGiven, make, order, seconds, time, visible} from "./dom.js";
import {highlight} from "./highlight.js";
import {askToUndo, wayBack} from "./undo.js";
import {showVersions} from "./versions.js";

let session = null; // whose runs these are
let about = () => undefined; // what is known of the session
let live = {};
let total = 0;
let listed = []; // the newest first
let goesOn = false; // the list, with older ones than the newest
const shown = new Map(); // by run: its item in the list, and what is known of it
const isHere = () => !!about()?.here;

// begin empties the list for a session. of returns what is known of that.
export function begin(id, of) {
	[session, about, live, total, listed, goesOn] = [id, of, {}, 0, [], false];
	shown.clear();
	byId("runs").replaceChildren();
	byId("runs-note").textContent = "";
}

const tones = {completed: "good", running: "busy", cancelled: "dim"};
const isFailed = run => !(run.status in tones);

// showRuns shows the list, and returns whether a run has ended since the last one.
export function showRuns(list) {
	const isFirst = shown.size === 0;
	const ended = list.runs.some(run => run.status !== "running" && shown.get(run.run_id)?.run.status === "running");
	const newest = new Set(list.runs.map(run => run.run_id));
	listed = [...list.runs, ...listed.filter(run => goesOn && !newest.has(run.run_id))];
	const there = new Set(listed.map(run => run.run_id));
	for (const id of shown.keys()) if (!there.has(id)) shown.delete(id);
	total = list.total;
	listed.forEach((run, at) => {
		const known = shown.get(run.run_id);
		const item = known ?? newItem(run.run_id);
		shown.set(run.run_id, item);
		if (JSON.stringify(item.run) !== JSON.stringify(run)) {
			item.run = run;
			item.summary.replaceChildren(make("strong", {className: tones[run.status] ?? "bad"}, run.status.replaceAll("_", " ")), " ",
				make("code", {className: "text"}, run.title), " ",
				make("span", {className: "dim"}, run.language, ", ", time(run.started), run.duration_ms ? `, ${seconds(run.duration_ms / 1000)}` : "", stateOf(run)),
				...run.figure ? [make("img", {className: "thumbnail", src: `${address("sessions", session, "runs", run.run_id)}/${run.figure}`, alt: "", loading: "lazy"})] : []);
			item.element.classList.toggle("undone", !!run.undone && !run.copy);
			if (item.details.open) fill(item);
		}
		if (!known && (at === 0 || !isFirst && run.status === "running")) item.details.open = true;
	});
	arrange(byId("runs"), listed.map(run => shown.get(run.run_id).element));
	choose();
	return ended;
}

// stateOf says what became of a run's changes.
const stateOf = run => run.copy && run.undone ? ", in a copy" : run.undone ? ", undone" : run.files_undone ? ", its files undone" : "";

// showOlder adds those that come before the oldest in the list.
const showOlder = () => attempt(async () => {
	const of = session;
	const list = await ask(`${address("sessions", of, "runs")}?before=${listed.at(-1).run_id}`);
	if (session !== of) return;
	goesOn = true;
	showRuns({runs: [...listed, ...list.runs.filter(run => !shown.has(run.run_id))], total: list.total});
});
byId("older").addEventListener("click", showOlder);

// choose shows those runs alone that are searched for.
function choose() {
	const words = byId("search").value.trim().toLowerCase(), failed = byId("failed").checked;
	let seen = 0;
	for (const {element, run, id} of shown.values()) {
		element.hidden = failed && !isFailed(run) || !`${run.title}\n${run.code}\n${run.language}\n${id}`.toLowerCase().includes(words);
		if (!element.hidden) seen++;
	}
	byId("filter").hidden = !shown.size;
	byId("runs-note").textContent = [
		total ? "" : "Nothing has run here yet.",
		seen < shown.size ? `${seen} of ${shown.size} are shown.` : "",
		total > shown.size ? `These are the newest ${shown.size} of ${total}.` : "",
	].filter(Boolean).join(" ");
	byId("older").hidden = total <= shown.size;
}

function newItem(id) {
	const item = {id, run: null, parts: new Map(), summary: make("summary"), code: make("div", {className: "copied"}), actions: make("div"), output: make("div"), rest: make("div")};
	item.details = make("details", {}, item.summary, item.code, item.actions, item.output, item.rest);
	item.details.addEventListener("toggle", () => { if (item.details.open) fill(item); });
	item.element = make("li", {id: `run-${id}`}, item.details);
	return item;
}

// fill shows all of a run; while it runs, what comes is shown as it comes.
async function fill(item) {
	const of = session, asked = item.run;
	try {
		const run = await ask(address("sessions", of, "runs", item.id));
		if (session !== of || item.run !== asked) return;
		if (!item.code.hasChildNodes()) item.code.append(copyButton("the code", () => visible(run.code)), make("pre", {className: "code"}, ...highlight(run.code, run.language)));
		showActions(item);
		showResult(item, asked.status === "running" && live[item.id] || run);
		item.rest.replaceChildren(...filesOf(asked.files, run.artifacts), ...run.hint ? [make("p", {className: "note text"}, run.hint)] : [], make("p", {className: "id"}, item.id));
	} catch (e) {
		item.rest.replaceChildren(make("p", {className: "wrong text"}, e.message));
	}
}

// filesOf shows what a run did to files, if it did anything.
function filesOf(did, artifacts) {
	const sizes = new Map(artifacts.map(f => [f.path, f.size_bytes]));
	const rows = [...did?.paths ?? [], ...artifacts.filter(f => !did?.paths?.some(t => t.path === f.path))].map(f => make("li", {className: "row text"},
		f.how === "removed" ? make("span", {}, f.path) : fileLink(f), make("span", {className: "dim"}, [f.how, bytes(sizes.get(f.path))].filter(Boolean).join(", ")),
		...isHere() ? [button("Versions", {ariaLabel: visible(`Versions of ${f.path}`)}, () => showVersions(session, f.path))] : []));
	if (!rows.length) return [];
	const shared = did?.with?.length ? `, perhaps by ${did.with.join(", ")}` : "";
	return [make("p", {className: "dim"}, did ? `files: ${did.added} added, ${did.changed} changed, ${did.removed} removed${shared}` : "files"), make("ul", {className: "files"}, ...rows)];
}

// orderButton is a button that has the server do something, once.
const orderButton = (label, properties, act) => make("p", {}, button(label, properties, pressed => attempt(async () => {
	pressed.disabled = true;
	try { await act(); } catch (e) { pressed.disabled = false; throw e; }
})));

// showActions shows what can be done with a run now.
function showActions(item) {
	const actions = [];
	if (item.run.status !== "running") {
		const way = wayBack(about(), item.run, listed);
		if (way) actions.push(make("p", {}, button(way.label, {disabled: way.waits}, () => askToUndo(session, way))));
		if (way?.waits) actions.push(make("p", {className: "note"}, "It can be undone when nothing runs in the session any more."));
	} else if (isHere()) {
		actions.push(orderButton("Cancel the run", {className: "danger"}, () => order("POST", `${address("runs", item.id, "cancel")}?wait_seconds=0&session_id=${encodeURIComponent(session)}`)));
	} else {
		actions.push(make("p", {className: "note"}, "What it prints is not known here while it runs."));
	}
	const labels = list => list.map(e => e.textContent + e.firstChild.disabled).join();
	if (labels([...item.actions.children]) !== labels(actions)) item.actions.replaceChildren(...actions); // what is focused stays so
}

// showWaysBack shows the runs that can be undone by now.
export function showWaysBack() {
	for (const item of shown.values()) if (item.code.hasChildNodes()) showActions(item);
}

export function showLive(runs) {
	live = runs;
	for (const [id, result] of Object.entries(runs)) {
		const item = shown.get(id);
		if (item?.code.hasChildNodes() && item.run.status === "running") showResult(item, result);
	}
}

// part returns the part of a run's result that has a key, made once.
function part(item, key, create) {
	if (!item.parts.has(key)) item.parts.set(key, create());
	return item.parts.get(key);
}

// block returns a text under a heading. While its run goes on its end stays in sight, unless somebody has scrolled back.
function block(item, heading, said, className) {
	const text = visible(said);
	const element = part(item, heading, () => {
		const pre = make("pre", {className: className ?? ""});
		return make("section", {className: "copied"}, make("p", {className: "dim"}, heading), copyButton(heading, () => pre.textContent), pre);
	});
	const pre = element.lastChild, had = pre.textContent;
	if (text === had) return element;
	const atEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 10;
	if (text.startsWith(had)) pre.append(text.slice(had.length)); else pre.textContent = text; // what is selected stays so
	if (atEnd && item.run.status === "running") item.follow.push(pre);
	return element;
}

const mostFrames = 4; // of a run: each may be a figure with its library
const isPage = path => /\.html?$/i.test(path ?? "");

// frameOf shows a page of the session in a frame that is of no origin. Where its scripts lead the frame, the policy of this page decides.
const frameOf = path => make("figure", {},
	make("iframe", {sandbox: "allow-scripts", referrerPolicy: "no-referrer", loading: "lazy", title: visible(path), src: filesAddress(path)}),
	make("figcaption", {className: "dim text"}, path));

function showResult(item, r) {
	item.follow = [];
	const parts = [], frames = [];
	for (const [heading, stream] of [["output", r.stdout], ["stderr", r.stderr]]) {
		if (!stream.head && !stream.tail) continue;
		parts.push(block(item, heading, stream.head + (stream.omitted_bytes > 0 ? `\n… ${bytes(stream.omitted_bytes)} left out …\n` : "") + stream.tail));
		if (stream.path) parts.push(part(item, `all ${heading}`, () => make("p", {}, "all of it: ", fileLink(stream))));
	}
	if (isGiven(r.result)) parts.push(block(item, "value", r.result));
	if (r.error) parts.push(block(item, "error", r.error.traceback || `${r.error.name}: ${r.error.message}`, tones[item.run.status] ?? "bad"));
	r.displays.forEach((d, at) => {
		if (isPage(d.path) && isHere() && frames.length < mostFrames && (!d.figure || about().page_scripts)) { // it shows more than its still
			frames.push(d.path);
			parts.push(part(item, `shown ${at} ${d.path}`, () => frameOf(d.path)));
		} else if (d.figure) {
			parts.push(part(item, `figure ${at} ${d.path} ${d.version}`, () => make("figure", {},
				make("img", {src: `${address("sessions", session, "runs", item.id, "displays", at)}?version=${d.version}`, alt: visible(d.alt || "a figure of this run"), loading: "lazy"}),
				make("figcaption", {className: "dim text"}, d.path))));
		} else if (d.text) {
			parts.push(block(item, `shown ${at + 1}`, d.text));
		} else if (d.path) {
			parts.push(part(item, `shown ${at} ${d.path}`, () => make("p", {className: "text"}, `shown: ${d.path}`)));
		}
	});
	for (const f of isHere() ? r.artifacts : []) {
		if (!isPage(f.path) || frames.includes(f.path) || frames.length >= mostFrames) continue;
		frames.push(f.path);
		parts.push(part(item, `frame ${f.path} ${f.size_bytes} ${f.modified}`, () => frameOf(f.path)));
	}
	parts.push(...r.notes.map(note => make("p", {className: "note text"}, note)));
	arrange(item.output, parts);
	for (const [key, element] of item.parts) if (!parts.includes(element)) item.parts.delete(key);
	for (const pre of item.follow) pre.scrollTop = pre.scrollHeight;
}

const filesAddress = path => address("sessions", session, "files", ...path.split("/"));

export const fileLink = f => isHere()
	? make("a", {href: filesAddress(f.path), target: "_blank", rel: "noopener"}, f.path) : make("span", {}, f.path);

for (const id of ["search", "failed"]) byId(id).addEventListener("input", choose);
