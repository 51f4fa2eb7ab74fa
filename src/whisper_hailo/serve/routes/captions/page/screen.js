// Full screen, and a screen that stays on.

import { setting, onChange } from "./settings.js";

const HIDE_MS = 3000;
const root = document.documentElement;
let lock = null;
let hideTimer = null;

export const canFullScreen = Boolean(document.fullscreenEnabled);
export const canKeepAwake = "wakeLock" in navigator; // pages of https:// and localhost only

export function toggleFullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else root.requestFullscreen({ navigationUI: "hide" });
}

// In full screen the controls appear with the pointer or the keyboard, and hide again.
function showControls() {
  clearTimeout(hideTimer);
  root.classList.remove("quiet");
  if (document.fullscreenElement) hideTimer = setTimeout(() => root.classList.add("quiet"), HIDE_MS);
}

async function keepAwake() {
  const isWanted = canKeepAwake && setting("awake") && !document.hidden;
  if (isWanted && !lock) {
    lock = "asked";
    try {
      lock = await navigator.wakeLock.request("screen");
      lock.addEventListener("release", () => { lock = null; }); // such as by a battery that is low
    } catch {
      lock = null; // it may be refused at any time, and the screen goes dark as it always did
    }
  } else if (!isWanted) {
    lock?.release?.();
  }
}

export function watchScreen() {
  for (const event of ["pointermove", "pointerdown", "keydown"]) {
    document.addEventListener(event, showControls);
  }
  document.addEventListener("fullscreenchange", showControls);
  document.addEventListener("visibilitychange", keepAwake);
  onChange(keepAwake);
}
