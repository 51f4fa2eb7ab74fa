// Controls of the captions, for a page that was opened with the token.

import { label } from "./language.js";
import { tell } from "./status.js";

const at = (id) => document.getElementById(id);
let say = null;
let spoken = ""; // the language that holds
let asked = 0;
let isPaused = false;

export function prepareControls(send) {
  say = send;
  at("mark").onclick = () => {
    ask("marker", { label: at("mark-name").value });
    at("mark-name").value = "";
  };
  at("mark-name").onkeydown = ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) at("mark").click();
  };
  at("clear").onclick = () => ask("clear");
  at("spoken").onchange = () => ask("language", { language: at("spoken").value || "auto" });
}

export const pressPause = () => ask(isPaused ? "resume" : "pause");

// What may be done.
export function showControls(may) {
  at("pause").hidden = at("control").hidden = !may.includes("control");
}

// What is so, whoever did it.
export function showPause(paused) {
  isPaused = paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  label(at("pause").querySelector("span"), paused ? "resume" : "pause");
}

export function showSettings({ language }) {
  spoken = language ?? "";
  at("spoken").value = spoken;
}

// Why something was not done is told where it was asked for.
export function takeAnswer({ action, ok, error }) {
  at("refused").textContent = ok ? "" : error;
  if (!ok && !at("options").open) tell("refused", error);
  if (!ok && action === "language") at("spoken").value = spoken;
}

function ask(action, what = {}) {
  asked += 1;
  say({ type: "control", id: asked, action, ...what });
}
