// The page at `/`: recordings go to the server one after the other, and their text comes back.

import { readError, readEvents } from "./events.js";
import { record } from "./microphone.js";
import { clock, Result } from "./result.js";

const find = (id) => document.getElementById(id);
const button = find("record");
const queue = []; // pairs of a form and its result
let server = {}; // what about.json says
let isBusy = false;
let stopRecording = null;

function headers() {
  const key = find("key").value.trim();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

function addFiles(files) {
  if (!find("request").reportValidity()) return;
  const speakers = find("speakers").value;
  for (const file of files) {
    find("empty").hidden = true;
    const form = new FormData();
    form.set("file", file, file.name);
    form.set("model", find("models").value);
    form.set("language", find("language").value);
    form.set("task", find("task").value);
    form.set("speakers", speakers);
    form.set("speaker_names", speakers ? find("names").value : "");
    queue.push([form, new Result(file, find("results"))]);
  }
  if (!isBusy) processQueue();
}

async function processQueue() {
  isBusy = true;
  while (queue.length) {
    const [form, result] = queue.shift();
    try {
      result.stopping.signal.throwIfAborted();
      await transcribe(form, result);
    } catch (error) {
      const isStopped = result.stopping.signal.aborted;
      result.end(isStopped ? "Stopped" : describe(error.message, result.name), !isStopped);
    }
  }
  isBusy = false;
}

// What programs say of a file is in brackets, and of no use to its owner.
function describe(message, name) {
  const short = message.replace(/ \([^()]*\)/g, "");
  if (short.startsWith(name)) return short; // a name stays as it is
  return short.charAt(0).toUpperCase() + short.slice(1);
}

async function transcribe(form, result) {
  result.showState("Uploading");
  const signal = result.stopping.signal;
  const request = { method: "POST", body: form, headers: headers(), signal };
  const response = await fetch("page/transcripts", request).catch((error) => {
    throw signal.aborted ? error : new Error("the server cannot be reached; check the network and try again");
  });
  if (response.status === 401) find("key").focus();
  if (!response.ok) throw new Error(await readError(response));
  let duration = 0;
  for await (const event of readEvents(response)) {
    if (event.type === "begin") {
      duration = event.duration;
      if (event.speakers) result.showState("Finding the speakers");
      else result.showProgress(0, duration);
    } else if (event.type === "segment") {
      result.addSegment(event);
      result.showProgress(event.end, duration);
    } else if (event.type === "done") {
      result.showFiles(event);
      return;
    } else {
      throw new Error(event.error.message);
    }
  }
  throw new Error("the connection was lost; try again");
}

async function toggleRecording() {
  if (stopRecording) return stopRecording();
  button.disabled = true;
  find("notice").textContent = "";
  try {
    const showSeconds = (seconds) => { find("recording").textContent = clock(seconds); };
    stopRecording = await record(server.seconds, showSeconds, (file) => {
      stopRecording = null;
      button.setAttribute("aria-pressed", "false");
      find("recording").textContent = "";
      if (file) addFiles([file]);
    });
    if (stopRecording) button.setAttribute("aria-pressed", "true");
  } catch (error) {
    stopRecording = null;
    find("notice").textContent = `The microphone cannot be used: ${error.message}`;
  } finally {
    button.disabled = false;
  }
}

async function prepare() {
  server = await (await fetch("page/about.json")).json();
  find("model").textContent = server.models.join(", ");
  find("model-field").hidden = server.models.length < 2;
  for (const name of server.models) find("models").append(new Option(name, name));
  find("key-field").hidden = !server.key;
  find("speakers-field").hidden = !server.speakers;
  for (const [code, name] of server.languages) find("language").append(new Option(name, code));
  if (!navigator.mediaDevices) {
    button.disabled = true;
    find("notice").textContent = "Recording needs HTTPS, or a browser on the server's own machine.";
  }
  document.documentElement.dataset.ready = "";
}

const drop = find("drop");
find("files").onchange = ({ target }) => {
  addFiles([...target.files]);
  target.value = ""; // or the same file could not be chosen again
};
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop") addFiles([...event.dataTransfer.files]);
  });
}
find("speakers").onchange = ({ target }) => { find("names-field").hidden = !target.value; };
find("request").onsubmit = (event) => event.preventDefault();
button.onclick = toggleRecording;
prepare();
