// The page: what comes over the connection goes into the text, and keys and buttons to where they act.

import { connect } from "./connection.js";
import { prepareControls, pressPause, showControls, showPause, showSettings, takeAnswer } from "./controls.js";
import { clearFigures, showFigures } from "./figures.js";
import { Following } from "./following.js";
import { speak } from "./language.js";
import { press, stop } from "./microphone.js";
import { openOptions, prepareOptions } from "./options.js";
import { Records } from "./records.js";
import { canFill, fill, watch } from "./screen.js";
import { set, setting, toggle, whenSet } from "./settings.js";
import { note, showLevel } from "./status.js";
import { Text } from "./text.js";

const STEP = 1.15;
const FADE_MS = 10000; // over a picture, what was said long ago goes

const at = (id) => document.getElementById(id);
const root = document.documentElement;
const isOverlay = new URLSearchParams(location.search).get("overlay") === "1";
const records = new Records();
const text = new Text(at("text"));
const following = new Following(at("log"), at("text"), at("newest"));
let fading = null;

function snapshot(message) {
  const why = records.begin(message);
  if (why === "cleared") wipe();
  else if (why) text.note(why);
  showSettings(message.settings);
  showPause(Boolean(message.away?.paused));
  note({
    ended: false,
    away: message.away,
    browser: message.browser_microphone,
    recording: message.recording,
    behind: message.figures.at(-1)?.behind_s,
  });
  clearFigures();
  message.figures.forEach(showFigures);
  for (const event of message.completed) TAKES[event.event](event);
  if (message.partial) text.partial(message.partial);
  else text.clear();
}

function completed(event) {
  if (!event.text) text.clear();
  else if (records.add(event) && text.complete(event)) following.refit();
}

function unheard(event) {
  const key = event.paused ? "paused_for" : "unheard";
  if (records.add(event)) text.note(key, (event.end_s - event.start_s).toFixed(1));
}

function marked(event) {
  if (records.add(event)) text.note("marker", event.label);
}

function wipe() {
  text.wipe();
  following.refit();
}

const TAKES = {
  hello({ may }) {
    note({ may });
    showControls(may);
    at("microphone").hidden = !may.includes("record");
    root.classList.toggle("microphone", may.includes("record"));
  },
  snapshot,
  completed,
  partial: (event) => text.partial(event),
  lost: unheard,
  away(event) {
    note({ away: event });
    showPause(Boolean(event.paused));
  },
  back(event) {
    note({ away: null });
    showPause(false);
    unheard(event);
  },
  marker: marked,
  cleared() {
    records.clear();
    wipe();
  },
  settings: ({ settings }) => showSettings(settings),
  answer: takeAnswer,
  recording: ({ recording }) => note({ recording }),
  level: ({ level_db: db }) => showLevel(db),
  figures(event) {
    note({ behind: event.behind_s });
    showFigures(event);
  },
  end() {
    text.clear();
    note({ ended: true });
    stop();
  },
};
const CHANGES_TEXT = new Set(["snapshot", "completed", "partial", "lost", "back", "marker", "cleared", "end"]);

function take(message) {
  TAKES[message.event]?.(message); // others are not for the page
  if (!CHANGES_TEXT.has(message.event)) return;
  at("first").hidden = !text.isEmpty;
  following.keep(message.event === "snapshot");
  if (isOverlay) keepInSight();
}

function keepInSight() {
  clearTimeout(fading);
  root.classList.remove("faded");
  fading = setTimeout(() => root.classList.add("faded"), FADE_MS);
}

const resize = (factor) => set({ scale: Math.min(4, Math.max(0.4, setting("scale") * factor)) });

const KEYS = {
  "+": () => resize(STEP),
  "=": () => resize(STEP),
  "-": () => resize(1 / STEP),
  c: () => toggle("shading"),
  f: () => { if (canFill) fill(); },
  k: () => { if (!at("pause").hidden) pressPause(); },
  m: () => { if (!at("microphone").hidden) press(); },
  o: openOptions,
  s: () => toggle("figures"),
  t: () => toggle("times"),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("dialog")) return;
  if (setting("keys")) KEYS[event.key]?.();
});
at("larger").onclick = () => resize(STEP);
at("smaller").onclick = () => resize(1 / STEP);
at("full").onclick = fill;
at("full").hidden = !canFill;
at("microphone").onclick = press;
at("pause").onclick = pressPause;
at("open").onclick = openOptions;

root.classList.toggle("overlay", isOverlay);
whenSet(({ theme, language, scale, times, shading, figures }) => {
  root.dataset.theme = theme;
  root.style.setProperty("--scale", isOverlay ? 1 : scale);
  root.classList.toggle("times", times);
  root.classList.toggle("shading", shading);
  at("figures").hidden = !figures;
  speak(language);
  following.refit();
});
prepareOptions(records);
watch();
prepareControls(
  connect("events", take, (connected) => note({ connected }), () => note({ may: [] })),
);
