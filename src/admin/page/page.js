"use strict";
const all = (what, of = document) => of.querySelectorAll(what);
document.querySelector("header").insertAdjacentHTML("beforeend", "<p><label><input type=checkbox checked> Refresh every 5 seconds</label> <span role=status></span></p>");
const [box, said] = all("header input, header span");
// Without TLS, a browser lets only pages of the own machine copy. A click selects the command there.
const buttons = () => navigator.clipboard && all(".copy").forEach((code) => code.insertAdjacentHTML("afterend", " <button>Copy</button>"));
buttons();
document.onclick = async ({ target }) => {
  if (target.matches("button")) {
    await navigator.clipboard.writeText(target.previousElementSibling.textContent);
    said.textContent = "Copied.";
  }
};
setInterval(async () => {
  if (!box.checked || document.hidden || getSelection().toString()) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw answer.status;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const now of all("details", page)) {
      const old = document.querySelector(`#${now.parentNode.id} details`);
      if (old) now.open = old.open;
    }
    const focus = document.activeElement, id = focus.closest("section")?.id;
    document.title = page.title;
    document.querySelector("main").replaceWith(page.querySelector("main"));
    buttons();
    document.getElementById(id)?.querySelector(focus.localName)?.focus();
    said.textContent = "";
  } catch {
    said.textContent = "podnudge does not answer. This is its last known state.";
  }
}, 5000);
