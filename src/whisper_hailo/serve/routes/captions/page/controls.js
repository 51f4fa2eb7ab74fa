// Controls of the captions, for pages that were opened with the token.

import { label } from "./language.js";
import { showMessage } from "./status.js";

const find = (id) => document.getElementById(id);
let send = null;
let language = ""; // of the captions
let lastId = 0;
let isPaused = false;

export function prepareControls(sendMessage) {
  send = sendMessage;
  find("mark").onclick = () => {
    sendCommand("marker", { label: find("mark-name").value });
    find("mark-name").value = "";
  };
  find("mark-name").onkeydown = ({ key, isComposing }) => {
    if (key === "Enter" && !isComposing) find("mark").click();
  };
  find("clear").onclick = () => sendCommand("clear");
  find("spoken").onchange = () => sendCommand("language", { language: find("spoken").value || "auto" });
}

export const togglePause = () => sendCommand(isPaused ? "resume" : "pause");

// Shows the controls that this page may use.
export function showControls(may) {
  find("pause").hidden = find("control").hidden = !may.includes("control");
}

// Shows whether the captions are paused, whoever paused them.
export function showPause(paused) {
  isPaused = paused;
  find("pause").setAttribute("aria-pressed", String(paused));
  label(find("pause").querySelector("span"), paused ? "resume" : "pause");
}

export function showSettings(settings) {
  language = settings.language ?? "";
  find("spoken").value = language;
}

// Shows why a command was refused, where it was given.
export function showAnswer({ action, ok, error }) {
  find("refused").textContent = ok ? "" : error;
  if (!ok && !find("options").open) showMessage("refused", error);
  if (!ok && action === "language") find("spoken").value = language;
}

function sendCommand(action, fields = {}) {
  lastId += 1;
  send({ type: "control", id: lastId, action, ...fields });
}
