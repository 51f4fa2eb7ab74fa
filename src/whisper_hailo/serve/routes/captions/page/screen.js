// The whole screen, and one that does not go dark.

import { setting, whenSet } from "./settings.js";

const QUIET_MS = 3000;
const root = document.documentElement;
let lock = null;
let quiet = null;

export const canFill = Boolean(document.fullscreenEnabled);
export const canWake = "wakeLock" in navigator; // pages of https:// and localhost only

export function fill() {
  if (document.fullscreenElement) document.exitFullscreen();
  else root.requestFullscreen({ navigationUI: "hide" });
}

// On the whole screen the controls come with the pointer or the keyboard, and go.
function showControls() {
  clearTimeout(quiet);
  root.classList.remove("quiet");
  if (document.fullscreenElement) quiet = setTimeout(() => root.classList.add("quiet"), QUIET_MS);
}

async function keepAwake() {
  const wanted = canWake && setting("awake") && !document.hidden;
  if (wanted && !lock) {
    lock = "asked";
    try {
      lock = await navigator.wakeLock.request("screen");
      lock.addEventListener("release", () => { lock = null; }); // such as by a battery that is low
    } catch {
      lock = null; // it may be refused at any time, and the screen goes dark as it always did
    }
  } else if (!wanted) {
    lock?.release?.();
  }
}

export function watch() {
  for (const event of ["pointermove", "pointerdown", "keydown"]) {
    document.addEventListener(event, showControls);
  }
  document.addEventListener("fullscreenchange", showControls);
  document.addEventListener("visibilitychange", keepAwake);
  whenSet(keepAwake);
}
