// How a reader likes captions to look; this browser remembers it.

const NAME = "whisper-hailo captions";
const DEFAULTS = {
  scale: 1,
  theme: "system",
  language: "system",
  times: false,
  shading: false,
  unclear: true,
  figures: false,
  awake: true,
  keys: true,
};

function loadSettings() {
  const settings = {};
  try {
    const stored = JSON.parse(localStorage.getItem(NAME)) ?? {};
    for (const [name, value] of Object.entries(DEFAULTS)) {
      if (typeof stored[name] === typeof value) settings[name] = stored[name];
    }
  } catch {
    // Frames may have no storage, and other programs may have written something else there.
  }
  return settings;
}

const current = { ...DEFAULTS, ...loadSettings() };
const listeners = [];

// Calls a listener now, and whenever something is set.
export function onChange(listener) {
  listeners.push(listener);
  listener(current);
}

export function set(changes) {
  Object.assign(current, changes);
  try {
    localStorage.setItem(NAME, JSON.stringify(current));
  } catch {
    // Without storage a setting holds as long as the page is open.
  }
  for (const listener of listeners) listener(current);
}

export const setting = (name) => current[name];
export const toggle = (name) => set({ [name]: !current[name] });
