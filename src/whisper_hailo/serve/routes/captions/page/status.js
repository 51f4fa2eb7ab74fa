// The state of the captions in one line, and the level of the sound.

import { label, text } from "./language.js";

const LOUDEST_DB = 0;
const SOFTEST_DB = -60;
const MESSAGE_MS = 3000;
const BEHIND_S = 5; // and in such steps, since each is read out

const state = document.getElementById("state");
const level = document.querySelector("#level span");
const facts = {
  connected: null,
  may: null,
  ended: false,
  away: null,
  browser: false,
  recording: false,
  own: null, // why the microphone of this page is not taken
  behind: 0, // seconds
};
let messageTimer = null; // runs while a passing message is shown

// `may`: the rights of this page. `own`: a kind of state, a key of the texts, and its value.
export function updateStatus(changes) {
  Object.assign(facts, changes);
  show();
}

// Shows a message for a moment.
export function showMessage(key, value = "") {
  clearTimeout(messageTimer);
  messageTimer = setTimeout(() => { messageTimer = null; show(); }, MESSAGE_MS);
  label(state, key, value);
  state.dataset.kind = "on";
}

export function showLevel(db) {
  const share = Math.max(0, Math.min(1, (db - SOFTEST_DB) / (LOUDEST_DB - SOFTEST_DB)));
  level.style.transform = `scaleX(${share.toFixed(3)})`;
}

export const hasEnded = () => facts.ended;
export const isMicrophoneTaken = () => facts.recording;

function show() {
  if (messageTimer) return;
  const [kind, key, value] = currentState();
  if (kind !== "on") showLevel(SOFTEST_DB);
  if (state.dataset.kind === kind && state.textContent === text(key, value)) return; // no news
  label(state, key, value);
  state.dataset.kind = kind;
}

function currentState() {
  if (facts.ended) return ["ended", "ended"];
  if (facts.may && !facts.may.includes("look")) return ["lost", "token"];
  if (facts.connected === null || !facts.may) return ["waiting", "connecting"];
  if (!facts.connected) return ["lost", "unconnected"];
  if (facts.own) return facts.own;
  if (facts.away?.paused) return ["waiting", "paused"];
  if (facts.browser && !facts.recording) return ["waiting", "silent"];
  if (facts.away?.stalled) return ["lost", "stalled"];
  if (facts.away) return ["lost", "away", facts.away.why];
  if (facts.behind > BEHIND_S) return ["on", "behind", BEHIND_S * Math.round(facts.behind / BEHIND_S)];
  return ["on", "listening"];
}
