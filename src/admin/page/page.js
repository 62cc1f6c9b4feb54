"use strict";
const box = document.createElement("input");
box.type = "checkbox";
box.checked = true;
const label = document.createElement("label");
label.append(box, " Refresh every 5 seconds");
const said = document.createElement("span");
said.setAttribute("role", "status");
const line = document.createElement("p");
line.append(label, " ", said);
document.querySelector("header").append(line);
setInterval(async () => {
  if (!box.checked || document.hidden || getSelection().toString()) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw answer.status;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    document.querySelector("main").replaceWith(page.querySelector("main"));
    said.textContent = "";
  } catch {
    said.textContent = "podnudge does not answer. This is its last known state.";
  }
}, 5000);
