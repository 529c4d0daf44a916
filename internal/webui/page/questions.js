// What code asks a person for. The server has spelled out what cannot be seen in its texts.
import {arrange, ask, button, byId, make, order} from "./dom.js";

const every = 2000, settle = 700; // milliseconds
const labels = {deny: "Deny", once: "Allow once", session: "Allow for this session", always: "Allow for good"};
const cards = new Map(); // by the question's id

function card(open) {
	const q = open.question;
	const rows = [
		["Host", q.host], ["Request", q.how], ["Address inside your network", q.address], ["Session", q.session_id], ["Run", q.run_id], ["Code", q.code],
	].filter(([, value]) => value);
	const answer = async decision => {
		byId("questions-wrong").textContent = "";
		try { await order("POST", `/ui/questions/${encodeURIComponent(open.id)}`, {answer: decision}); } catch (e) { byId("questions-wrong").textContent = e.message; }
		show();
	};
	const choices = open.answers.map(a => button(labels[a] ?? a, {className: a === "deny" ? "danger" : "", disabled: true}, () => answer(a)));
	setTimeout(() => choices.forEach(c => { c.disabled = false; }), settle); // a click that was meant for something else
	return make("li", {},
		make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {className: "text"}, value)])),
		make("p", {className: "text"}, q.allowed),
		make("p", {}, ...choices));
}

async function show() {
	const {questions} = await ask("/ui/questions");
	if (!questions) return false;
	const waiting = new Set(questions.map(o => o.id));
	for (const id of cards.keys()) if (!waiting.has(id)) cards.delete(id);
	for (const open of questions) if (!cards.has(open.id)) cards.set(open.id, card(open));
	arrange(byId("questions").querySelector("ul"), [...cards.values()]);
	byId("questions").hidden = !cards.size;
	document.title = cards.size ? "Code asks – Code sandbox" : "Code sandbox";
	return true;
}

// watchQuestions shows what is asked, as long as code may ask.
export async function watchQuestions() {
	for (;;) {
		try { if (!await show()) return; } catch { /* the page says elsewhere that the server is gone */ }
		await new Promise(done => setTimeout(done, every));
	}
}
