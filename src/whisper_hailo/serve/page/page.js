// The page at `/`: recordings go to the server one after the other, and their text comes back.

import { complaint, events } from "./events.js";
import { record } from "./microphone.js";
import { clock, Result } from "./result.js";

const find = (id) => document.getElementById(id);
const button = find("record");
const waiting = [];
let about = {};
let isBusy = false;
let stop = null;

function headers() {
  const key = find("key").value.trim();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

function take(files) {
  for (const file of files) {
    find("empty").hidden = true;
    const wish = new FormData();
    wish.set("file", file, file.name);
    wish.set("model", find("models").value);
    wish.set("language", find("language").value);
    wish.set("task", find("task").value);
    waiting.push([wish, new Result(file.name, find("results"))]);
  }
  if (!isBusy) work();
}

async function work() {
  isBusy = true;
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const [wish, result] = next;
    try {
      result.leaving.signal.throwIfAborted();
      await transcribe(wish, result);
    } catch (error) {
      const left = result.leaving.signal.aborted;
      result.end(left ? "stopped" : error.message, !left);
    }
  }
  isBusy = false;
}

async function transcribe(wish, result) {
  result.tell("is sent");
  const signal = result.leaving.signal;
  const asked = { method: "POST", body: wish, headers: headers(), signal };
  const response = await fetch("page/transcripts", asked).catch((error) => {
    throw signal.aborted ? error : new Error("the server cannot be reached; try again");
  });
  if (response.status === 401) find("key").focus();
  if (!response.ok) throw new Error(await complaint(response));
  let whole = 0;
  for await (const event of events(response)) {
    if (event.type === "begin") result.heard(0, (whole = event.duration));
    else if (event.type === "segment") {
      result.add(event);
      result.heard(event.end, whole);
    } else if (event.type === "done") return result.done(event);
    else throw new Error(event.error.message);
  }
  throw new Error("the server went away in the middle; try again");
}

async function toggle() {
  if (stop) return stop();
  button.disabled = true;
  try {
    const seconds = (now) => (find("recording").textContent = clock(now));
    stop = await record(about.seconds, seconds, (file) => {
      stop = null;
      button.setAttribute("aria-pressed", "false");
      find("recording").textContent = "";
      if (file) take([file]);
    });
    if (stop) button.setAttribute("aria-pressed", "true");
  } catch (error) {
    stop = null;
    find("recording").textContent = `The microphone cannot be used: ${error.message}`;
  } finally {
    button.disabled = false;
  }
}

async function begin() {
  about = await (await fetch("page/about.json")).json();
  find("model").textContent = about.models.join(", ");
  find("model-field").hidden = about.models.length < 2;
  for (const name of about.models) find("models").append(new Option(name, name));
  find("key-field").hidden = !about.key;
  for (const [code, name] of about.languages) find("language").append(new Option(name, code));
  if (!navigator.mediaDevices) {
    button.disabled = true;
    find("recording").textContent = "Recording needs HTTPS, or a browser on the server's own machine.";
  }
  document.documentElement.dataset.ready = "";
}

const drop = find("drop");
find("files").onchange = ({ target }) => {
  take([...target.files]);
  target.value = "";
};
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop") take([...event.dataTransfer.files]);
  });
}
find("wish").onsubmit = (event) => event.preventDefault();
button.onclick = toggle;
begin();
