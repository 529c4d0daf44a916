// Going back: what a run's undo changes, asked before it is done.
import {address, attempt, byId, make, order, say, visible} from "./dom.js";

const mostPaths = 12; // of the files in the question
const becomes = {added: "is removed", changed: "becomes what it was", removed: "comes back"};

// wayBack says what can go back before a run, of those that are listed with the newest first; undefined: nothing can.
export function wayBack(session, run, runs) {
	const kernel = session?.here && session.kernels.find(k => k.language === run.language);
	if (!kernel) return undefined;
	const since = runs.slice(0, runs.findIndex(r => r.run_id === run.run_id) + 1);
	const way = {run, since, waits: runs.some(r => r.status === "running"), label: "Undo to here …"};
	way.files = session.files_can_go_back_before.includes(run.run_id) && !run.files_undone;
	way.variables = kernel.can_go_back_before.includes(run.run_id) && !run.undone;
	if (kernel.copies.includes(run.run_id)) {
		[way.label, way.isCopy, way.files, way.variables] = ["Go on with its copy …", true, false, true];
		since.pop();
	}
	return way.files || way.variables ? way : undefined;
}

// filesBack sums up what becomes of the files that runs have changed: some, by their paths, and how many changes there were.
function filesBack(since) {
	const paths = new Map();
	let changes = 0, known = 0;
	for (const {files} of since.filter(r => r.files && !r.files_undone).toReversed()) {
		changes += files.added + files.changed + files.removed;
		known += files.paths?.length ?? 0;
		for (const {path, how} of files.paths ?? []) paths.set(path, [paths.get(path)?.[0] ?? how, how]);
	}
	const list = [...paths].filter(([, [first, last]]) => first !== "added" || last !== "removed").map(([path, [first]]) => `${path} ${becomes[first]}`);
	return {list, more: changes - known};
}

const assignments = {
	python: /^(?:async )?(?:def|class) (\w+)|^([\p{L}_][\p{L}\p{N}_]*(?: *, *[\p{L}_][\p{L}\p{N}_]*)*) *(?::[^=\n]+|[-+*/%|&]*)=(?!=)/gmu,
	javascript: /^(?:export )?(?:const|let|var|class|(?:async )?function\*?) +([\p{L}_$][\p{L}\p{N}_$]*)/gmu,
	bash: /^(?:export )?(\w+)=/gm,
};

// namesSet are the variables that code sets, as far as its lines show that without running it.
const namesSet = since => [...new Set(since.flatMap(r => [...r.code.matchAll(assignments[r.language] ?? /$^/g)].flatMap(found => (found[1] ?? found[2]).split(/ *, */))))];

let asked = null;

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// askToUndo asks what of a way back to go.
export function askToUndo(session, way) {
	asked = {session, way};
	const {run, since} = way, own = since.filter(r => r.language === run.language && !r.undone), back = filesBack(since), names = namesSet(own.toReversed());
	const note = (id, text, can) => {
		byId(id).checked = can;
		byId(id).disabled = !can;
		byId(id).nextElementSibling.textContent = visible(text);
	};
	byId("undoing-title").textContent = visible(way.isCopy ? `Go on with the copy of “${run.title}”?` : `Undo “${run.title}”${since.length > 1 ? " and what came after it" : ""}?`);
	byId("undoing-runs").textContent = visible(since.length > 1 || way.isCopy && since.length ? `${count(since.length, "run")}: ${since.slice(0, 5).map(r => r.title).join("; ")}${since.length > 5 ? "; …" : ""}` : "");
	const shown = way.files ? back.list.slice(0, mostPaths) : [], more = back.list.length - shown.length + back.more;
	note("undo-files", !way.files ? way.isCopy ? "Files stay: the copy is of variables" : "Files stay: there are no versions from before this run" : shown.length ? "Files:" : "Files: no change is known", way.files);
	byId("undoing-files").replaceChildren(...shown.map(text => make("li", {className: "text"}, text)), ...way.files && more > 0 ? [make("li", {className: "dim"}, `and ${count(more, "change")} more`)] : []);
	byId("undoing").querySelector(".danger").textContent = way.isCopy ? "Go on with it" : "Undo";
	note("undo-variables", way.isCopy ? `Variables of ${run.language} become those of the copy` : way.variables ? `Variables of ${run.language}${names.length ? `, as far as the code shows: ${names.slice(0, 30).join(", ")}${names.length > 30 ? ", …" : ""}` : ""}`
		: `Variables of ${run.language} stay: there is no copy from before this run`, way.variables);
	const others = [...new Set(since.map(r => r.language))].filter(l => l !== run.language);
	byId("undoing-note").textContent = visible(others.length ? `Variables of ${others.join(" and ")} stay as they are.` : "");
	byId("undoing").returnValue = "";
	byId("undoing").showModal();
}

byId("undoing").addEventListener("close", e => {
	const {session, way} = asked, files = byId("undo-files").checked, variables = byId("undo-variables").checked;
	if (e.target.returnValue !== "undo" || !files && !variables) return;
	attempt(async () => {
		const r = await order("POST", address("sessions", session, "restore"), {run_id: way.run.run_id, files, variables});
		const left = [...r.files?.not_restored ?? [], ...r.variables_not_restored].map(n => `${n.path ?? n.name}: ${n.why}`);
		say([
			r.files ? `${count(r.files.restored, "file")} restored, ${r.files.removed} removed.` : "Files stay as they are.",
			r.variables ? `Variables of ${way.run.language} have gone back.` : "Variables stay as they are.",
			left.length ? `Not restored: ${left.join("; ")}.` : "",
		].filter(Boolean).join(" "), "done");
	});
});
