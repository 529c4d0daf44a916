// The page: the sessions, and one of them with its runs, its files and its network log.
import {address, ask, attempt, byId, bytes, fillTable, isGiven, make, order, say, time, visible} from "./dom.js";
import {clearFiles, showFiles} from "./files.js";
import {watchQuestions} from "./questions.js";
import {begin, showLive, showRuns, showWaysBack} from "./runs.js";

let chosen = null; // the session that is shown
let sessions = new Map();
let source = null;

function listen() {
	source?.close();
	const opened = new EventSource(`${address("events")}?session_id=${encodeURIComponent(chosen ?? "")}`);
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
	on("runs", list => { if (showRuns(list) && byId("files").open) showFiles(); });
	on("live", showLive);
	on("network", showNetwork);
}

const linkTo = id => `#/${encodeURIComponent(id)}`;

// latest is the session that was used last.
const latest = () => [...sessions.values()].reduce((a, b) => (a && a.last_used >= b.last_used ? a : b), null);

const nameOf = s => s.named ? s.session_id : "Unnamed session";

function showSessions(list) {
	const newestFirst = list.sessions.toSorted((a, b) => b.created.localeCompare(a.created));
	sessions = new Map(newestFirst.map(s => [s.session_id, s]));
	byId("note").textContent = list.sessions.length ? "" : "There are none yet. One comes when code runs.";
	const focused = document.activeElement?.dataset?.session;
	byId("sessions").replaceChildren(...newestFirst.map(s => {
		const link = make("a", {href: linkTo(s.session_id)}, make("span", {className: "text"}, nameOf(s)),
			make("small", {}, "used ", time(s.last_used), "; ", describe(s)), ...s.named ? [] : [make("small", {className: "id"}, s.session_id)]);
		link.dataset.session = s.session_id;
		if (s.session_id === chosen) link.setAttribute("aria-current", "true");
		return make("li", {}, link);
	}));
	if (focused) [...document.querySelectorAll("nav a")].find(a => a.dataset.session === focused)?.focus();
	if (!location.hash && sessions.size) location.replace(linkTo(latest().session_id));
	showFacts();
	showWaysBack();
}

const describe = s => {
	const kernels = s.kernels.filter(k => k.state !== "not started").map(k => k.state === "kept" ? `${k.language} variables kept` : `${k.language} ${k.state}`).join(", ");
	const stay = s.pinned ? "; pinned" : s.state === "asleep" && s.kept_until ? `; kept until ${new Date(s.kept_until).toLocaleDateString()}` : "";
	const open = s.state === "asleep" || s.owner === "none" ? "asleep" : `open in ${s.owner}`;
	return open + (kernels ? `; ${kernels}` : "") + stay + (s.place ? `; place: ${s.place}` : "");
};

function showFacts() {
	const s = sessions.get(chosen);
	byId("session").hidden = !s;
	byId("none").hidden = !!s;
	byId("none").textContent = visible(chosen === null ? "Choose a session." : `There is no session ${chosen} now.`);
	if (!s) return;
	byId("name").textContent = visible(nameOf(s));
	byId("facts").replaceChildren(visible(describe(s)), "; begun ", time(s.created), "; used ", time(s.last_used),
		isGiven(s.size_bytes) ? `; files: ${bytes(s.size_bytes)}` : "", ...s.named ? [] : [" ", make("small", {className: "id"}, s.session_id)]);
	byId("elsewhere").textContent = s.here ? "" : {
		"another server": "The server that has this session open does not answer. Output is shown here once its run is over.",
		"none": "No server has this session open. Its runs are shown; its files are once it is open here.",
	}[s.owner] ?? "";
	byId("open").hidden = s.here || s.owner !== "none";
	byId("close").disabled = s.owner === "another server" && !s.here;
	byId("files").hidden = byId("network").hidden = !s.here;
}

// named is the session that the address names, also where what it has is no name.
function named() {
	const name = location.hash.slice("#/".length);
	try { return decodeURIComponent(name) || null; } catch { return name; }
}

function choose() {
	if (location.hash && !location.hash.startsWith("#/")) return; // it leads to a part of the page
	chosen = named();
	document.body.classList.toggle("chosen", chosen !== null);
	begin(chosen, () => sessions.get(chosen));
	say("");
	byId("files").open = byId("network").open = false;
	clearFiles(chosen);
	byId("network-note").textContent = "";
	byId("network-rows").replaceChildren();
	document.querySelectorAll("nav a").forEach(a => a.toggleAttribute("aria-current", a.dataset.session === chosen));
	showFacts();
	listen();
}

const verdict = e => {
	const how = e.rule?.startsWith("asked: ") ? e.rule : "allowed";
	if (e.allowed) return e.status ? `${how}, ${e.status}` : how;
	return e.rule ? `refused: ${e.rule}` : "refused";
};

function showNetwork(log) {
	byId("network-note").textContent = !log.total ? "Nothing was sent out, and nothing refused."
		: log.total > log.requests.length ? `The newest ${log.requests.length} of ${log.total}.` : "";
	fillTable("network-rows", log.requests.map(e => [time(e.time), `${e.kind} ${e.method ?? ""}`, e.host + (e.path ?? ""),
		make("span", {className: e.allowed ? "good" : "bad"}, verdict(e)),
		bytes(e.sent_bytes), bytes(e.received_bytes)]));
}

// showEverybody shows the owner whose sessions there are and what they take; other persons get their own sessions without that.
const showEverybody = () => attempt(async () => {
	const list = (await ask(`${address("sessions")}?all=true`)).sessions.filter(s => isGiven(s.runs_now));
	byId("everybody-note").textContent = list.length ? "" : "No running server has any open that you may see.";
	byId("everybody-rows").replaceChildren(...list.map(s => make("li", {}, make("span", {className: "text"}, `${s.principal ?? "you"}: ${s.session_id}`),
		make("small", {}, `at most ${bytes(s.memory_limit_bytes)} of memory and ${s.cpu_limit} processors; ${isGiven(s.size_bytes) ? `files: ${bytes(s.size_bytes)}; ` : ""}${s.runs_now} runs now, ${s.runs_last_hour} in an hour; used `, time(s.last_used)))));
});
byId("everybody").addEventListener("toggle", () => { if (byId("everybody").open) showEverybody(); });

byId("open").addEventListener("click", () => attempt(() => order("POST", `/ui/open/${encodeURIComponent(chosen)}`)));
byId("close").addEventListener("click", () => {
	byId("closing-name").textContent = visible(nameOf(sessions.get(chosen)));
	byId("closing").returnValue = "";
	byId("closing").dataset.session = chosen;
	byId("closing").showModal();
});
byId("closing").addEventListener("close", e => {
	const answer = e.target.returnValue;
	if (answer) attempt(() => order("DELETE", `${address("sessions", e.target.dataset.session)}?keep_files=${answer === "keep"}`));
});
addEventListener("hashchange", choose);
watchQuestions();
choose();
