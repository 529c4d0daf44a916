// The versions of a file: as it was before each of the last runs that changed it, and how a text differs from what came after.
import {address, ask, attempt, button, byId, bytes, make, time, visible} from "./dom.js";

const mostText = 1_000_000; // bytes of a text that is compared
const mostCells = 4_000_000; // of the table that compares lines
const around = 3; // lines that stay, above and below a difference

const signs = {same: "  ", added: "+ ", removed: "- "};
const tones = {added: "good", removed: "bad"};

// table has the length of the longest common part of two lists of lines from each place on.
function table(a, b) {
	const width = b.length + 1, cells = new Uint16Array((a.length + 1) * width);
	for (let i = a.length - 1; i >= 0; i--) {
		for (let j = b.length - 1; j >= 0; j--) {
			cells[i * width + j] = a[i] === b[j] ? cells[(i + 1) * width + j + 1] + 1 : Math.max(cells[(i + 1) * width + j], cells[i * width + j + 1]);
		}
	}
	return (i, j) => cells[i * width + j];
}

// differences compares two texts by lines: each is same, added or removed.
function differences(before, after) {
	const a = before.split("\n"), b = after.split("\n");
	let start = 0, end = 0;
	while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
	while (end < Math.min(a.length, b.length) - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
	const lines = a.slice(0, start).map(text => ["same", text]);
	const [gone, come] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
	const common = (gone.length + 1) * (come.length + 1) <= mostCells ? table(gone, come) : () => 0; // else all of one, then all of the other
	for (let i = 0, j = 0; i < gone.length || j < come.length;) {
		if (i < gone.length && j < come.length && gone[i] === come[j]) { lines.push(["same", gone[i]]); i++; j++; }
		else if (i < gone.length && (j === come.length || common(i + 1, j) >= common(i, j + 1))) lines.push(["removed", gone[i++]]);
		else lines.push(["added", come[j++]]);
	}
	return [...lines, ...a.slice(a.length - end).map(text => ["same", text])];
}

// lineElements shows the lines that differ, with those around them.
function lineElements(lines) {
	const near = new Set();
	lines.forEach(([how], at) => { if (how !== "same") for (let n = at - around; n <= at + around; n++) near.add(n); });
	return lines.flatMap(([how, text], at) => near.has(at) ? [make("span", {className: tones[how] ?? ""}, `${signs[how]}${visible(text)}\n`)]
		: near.has(at - 1) ? ["…\n"] : []);
}

// textAt gets a file as text; no address: there was none.
async function textAt(of) {
	if (!of) return "";
	const answer = await fetch(of);
	const kind = answer.headers.get("Content-Type") ?? "";
	if (!answer.ok) throw new Error("One of the two versions is gone.");
	if (!kind.includes("charset=utf-8") || Number(answer.headers.get("Content-Length")) > mostText) {
		await answer.body?.cancel();
		throw new Error("Only texts of up to 1 MB are compared here.");
	}
	return answer.text();
}

// showVersions opens the list of a file's versions.
export const showVersions = (session, path) => attempt(async () => {
	const {versions} = await ask(address("sessions", session, "versions", ...path.split("/")));
	const at = of => of && address("sessions", session, "files", ...of.split("/"));
	byId("versions-name").textContent = visible(path);
	byId("difference").replaceChildren();
	byId("version-rows").replaceChildren(...versions.map((v, n) => {
		const next = n ? versions[n - 1].path : v.how === "removed" ? "" : path;
		const compare = button("Difference", {title: "What the run changed, and what came before the next one"}, () => attempt(async () => {
			const lines = lineElements(differences(await textAt(at(v.path)), await textAt(at(next))));
			byId("difference").replaceChildren(...lines.length ? lines : ["No line differs."]);
		}, "versions-wrong"));
		return make("li", {}, make("span", {className: "id"}, v.before), ` ${v.how} it; before: `,
			v.path ? make("a", {href: at(v.path), target: "_blank", rel: "noopener"}, bytes(v.size_bytes)) : v.why || "no file",
			...v.modified ? [", ", time(v.modified)] : [], " ", ...v.why || n && versions[n - 1].why ? [] : [compare]);
	}));
	byId("versions-note").textContent = versions.length ? "" : "None of the last runs has changed it.";
	byId("versions").showModal();
});
