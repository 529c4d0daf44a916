// The files of the session that is shown: a list with a search, uploads, and all of them in an archive.
import {address, ask, attempt, button, byId, bytes, fillTable, order, say, time, visible} from "./dom.js";
import {fileLink} from "./runs.js";
import {showVersions} from "./versions.js";

const settle = 300; // milliseconds in which somebody goes on typing
let session = null;
let typing = 0;

// clearFiles empties the list for a session.
export function clearFiles(of) {
	session = of;
	byId("file-search").value = byId("files-note").textContent = "";
	byId("archive").href = address("sessions", of ?? "", "archive");
	fillTable("file-rows", []);
}

// wordsGlob is a pattern of paths that contain a text, in capitals or not.
const wordsGlob = words => words && `**/*${[...words].map(c => /\p{L}/u.test(c) ? `[${c.toLowerCase()}${c.toUpperCase()}]` : c.replace(/[*?[\]{}\\]/, "\\$&")).join("")}*/**`;

// listFiles asks for all files: a list has those of input/ only where there are no others, or by their pattern.
async function listFiles(of, glob) {
	const get = pattern => ask(`${address("sessions", of, "files")}?glob=${encodeURIComponent(pattern)}`);
	const [list, uploads] = await Promise.all([get(glob), get(`input/${glob || "**"}`)]);
	if (list.artifacts.every(f => f.path.startsWith("input/"))) return uploads;
	return {
		artifacts: [...list.artifacts, ...uploads.artifacts].sort((a, b) => b.modified.localeCompare(a.modified)),
		total: list.total + uploads.total, complete: list.complete && uploads.complete,
		notes: [...new Set([...list.notes ?? [], ...uploads.notes ?? []])],
	};
}

export const showFiles = () => attempt(async () => {
	const of = session, words = byId("file-search").value.trim();
	const list = await listFiles(of, wordsGlob(words));
	if (session !== of || byId("file-search").value.trim() !== words) return;
	byId("files-note").textContent = [
		list.total ? "" : words ? "None has that in its path." : "There are none.",
		list.total > list.artifacts.length ? `The newest ${list.artifacts.length} of ${list.total}${words ? " with that in their path" : "; search finds the others"}.` : "",
		list.complete ? "" : "There are more than were looked at.",
		...list.notes ?? [],
	].filter(Boolean).join(" ");
	fillTable("file-rows", list.artifacts.map(f => [fileLink(f), bytes(f.size_bytes), time(f.modified),
		button("Versions", {ariaLabel: visible(`Versions of ${f.path}`)}, () => showVersions(of, f.path))]));
}, "files-note");

const upload = files => attempt(async () => {
	const of = session, put = (file, overwrite) => order("PUT", `${address("sessions", of, "files", "input", file.name)}?overwrite=${overwrite}`, file);
	for (const file of files) {
		say(`${file.name}, ${bytes(file.size)}, is being uploaded …`, "files-note");
		try { await put(file, false); } catch (e) {
			if (e.code !== "file_exists") throw !(e instanceof TypeError) ? e : new Error(`${file.name} was not taken: the connection ended. It may be larger than the server takes.`);
			if (confirm(visible(`There is a file input/${file.name}. Replace it?`))) await put(file, true);
		}
	}
}).then(showFiles);

byId("files").addEventListener("toggle", () => { if (byId("files").open) showFiles(); });
byId("reload").addEventListener("click", showFiles);
byId("file-search").addEventListener("input", () => {
	clearTimeout(typing);
	typing = setTimeout(showFiles, settle);
});
byId("upload").addEventListener("click", () => byId("uploads").click());
byId("uploads").addEventListener("change", async e => {
	await upload([...e.target.files]);
	e.target.value = ""; // or the same file could not be chosen again
});
byId("files").addEventListener("dragover", e => e.preventDefault());
byId("files").addEventListener("drop", e => {
	e.preventDefault();
	upload([...e.dataTransfer.files]);
});
