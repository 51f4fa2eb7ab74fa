// The page: hands messages of the server to the parts that show them, and keys and buttons to theirs.

import { connect } from "./connection.js";
import { prepareControls, showAnswer, showControls, showPause, showSettings, togglePause } from "./controls.js";
import { clearFigures, showFigures } from "./figures.js";
import { Following } from "./following.js";
import { setLanguage } from "./language.js";
import { stopMicrophone, toggleMicrophone } from "./microphone.js";
import { openOptions, prepareOptions } from "./options.js";
import { Records } from "./records.js";
import { canFullScreen, toggleFullScreen, watchScreen } from "./screen.js";
import { onChange, set, setting, toggle } from "./settings.js";
import { showLevel, updateStatus } from "./status.js";
import { Text } from "./text.js";

const STEP = 1.15;
const FADE_MS = 10000; // over a picture, what was said long ago goes

const find = (id) => document.getElementById(id);
const root = document.documentElement;
const isOverlay = new URLSearchParams(location.search).get("overlay") === "1";
const records = new Records();
const text = new Text(find("text"));
const following = new Following(find("log"), find("text"), find("newest"));
let fadeTimer = null;

function snapshot(message) {
  const change = records.beginSnapshot(message);
  if (change === "cleared") clearText();
  else if (change) text.addNote(change);
  showSettings(message.settings);
  showPause(Boolean(message.away?.paused));
  updateStatus({
    ended: false,
    away: message.away,
    browser: message.browser_microphone,
    recording: message.recording,
    behind: message.figures.at(-1)?.behind_s,
  });
  clearFigures();
  message.figures.forEach(showFigures);
  for (const event of message.completed) HANDLERS[event.event](event);
  if (message.partial) text.showPartial(message.partial);
  else text.clearPartial();
}

function completed(event) {
  if (!event.text) text.clearPartial();
  else if (records.add(event) && text.addSegment(event)) following.refit();
}

function addLoss(event) {
  if (event.stalled) return; // nothing is missing
  const key = event.paused ? "paused_for" : "unheard";
  if (records.add(event)) text.addNote(key, (event.end_s - event.start_s).toFixed(1));
}

function addUntranscribed(event) {
  if (records.add(event)) text.addMark("untranscribed", (event.end_s - event.start_s).toFixed(0));
}

function addMarker(event) {
  if (records.add(event)) text.addNote("marker", event.label);
}

function clearText() {
  text.clear();
  following.refit();
}

const HANDLERS = {
  hello({ may }) {
    updateStatus({ may });
    showControls(may);
    find("microphone").hidden = !may.includes("record");
    root.classList.toggle("microphone", may.includes("record"));
  },
  snapshot,
  completed,
  partial: (event) => text.showPartial(event),
  untranscribed: addUntranscribed,
  lost: addLoss,
  away(event) {
    updateStatus({ away: event });
    showPause(Boolean(event.paused));
  },
  back(event) {
    updateStatus({ away: null });
    showPause(false);
    addLoss(event);
  },
  marker: addMarker,
  cleared() {
    records.clear();
    clearText();
  },
  settings: ({ settings }) => showSettings(settings),
  answer: showAnswer,
  recording: ({ recording }) => updateStatus({ recording }),
  level: ({ level_db: db }) => showLevel(db),
  figures(event) {
    updateStatus({ behind: event.behind_s });
    showFigures(event);
  },
  end() {
    text.end();
    following.refit(); // no line is kept for words that may come
    updateStatus({ ended: true });
    stopMicrophone();
  },
};
const CHANGES_TEXT = new Set(["snapshot", "completed", "partial", "untranscribed", "lost", "back", "marker", "cleared", "end"]);

function handle(message) {
  HANDLERS[message.event]?.(message); // others are not for this page
  if (!CHANGES_TEXT.has(message.event)) return;
  find("first").hidden = !text.isEmpty;
  following.update(message.event === "snapshot");
  if (isOverlay) postponeFading();
}

function postponeFading() {
  clearTimeout(fadeTimer);
  root.classList.remove("faded");
  fadeTimer = setTimeout(() => root.classList.add("faded"), FADE_MS);
}

const resize = (factor) => set({ scale: Math.min(4, Math.max(0.4, setting("scale") * factor)) });

const KEYS = {
  "+": () => resize(STEP),
  "=": () => resize(STEP),
  "-": () => resize(1 / STEP),
  c: () => toggle("shading"),
  f: () => { if (canFullScreen) toggleFullScreen(); },
  k: () => { if (!find("pause").hidden) togglePause(); },
  m: () => { if (!find("microphone").hidden) toggleMicrophone(); },
  o: openOptions,
  s: () => toggle("figures"),
  t: () => toggle("times"),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog")) return;
  if (setting("keys")) KEYS[event.key]?.();
});
find("larger").onclick = () => resize(STEP);
find("smaller").onclick = () => resize(1 / STEP);
find("full").onclick = toggleFullScreen;
find("full").hidden = !canFullScreen;
find("microphone").onclick = toggleMicrophone;
find("pause").onclick = togglePause;
find("open").onclick = openOptions;

root.classList.toggle("overlay", isOverlay);
onChange(({ theme, language, scale, times, shading, unclear, figures }) => {
  root.dataset.theme = theme;
  root.style.setProperty("--scale", isOverlay ? 1 : scale);
  root.classList.toggle("times", times);
  root.classList.toggle("shading", shading);
  root.classList.toggle("guesses", unclear);
  find("figures").hidden = !figures;
  setLanguage(language);
  following.refit();
});
prepareOptions(records);
watchScreen();
prepareControls(
  connect("events", handle, (connected) => updateStatus({ connected }), () => updateStatus({ may: [] })),
);
