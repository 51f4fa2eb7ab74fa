// How its reader likes captions to look, which this browser remembers.

const NAME = "whisper-hailo captions";
const USUAL = {
  scale: 1,
  theme: "system",
  language: "system",
  times: false,
  shading: false,
  figures: false,
  awake: true,
  keys: true,
};

function remembered() {
  const found = {};
  try {
    const kept = JSON.parse(localStorage.getItem(NAME)) ?? {};
    for (const [name, usual] of Object.entries(USUAL)) {
      if (typeof kept[name] === typeof usual) found[name] = kept[name];
    }
  } catch {
    // Frames may be denied a memory, and somebody may have put something else there.
  }
  return found;
}

const current = { ...USUAL, ...remembered() };
const listeners = [];

// Calls now, and whenever something is set.
export function whenSet(listener) {
  listeners.push(listener);
  listener(current);
}

export function set(changes) {
  Object.assign(current, changes);
  try {
    localStorage.setItem(NAME, JSON.stringify(current));
  } catch {
    // Likewise: then it holds for as long as the page is open.
  }
  for (const listener of listeners) listener(current);
}

export const setting = (name) => current[name];
export const toggle = (name) => set({ [name]: !current[name] });
