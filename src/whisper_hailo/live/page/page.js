// The page keeps one element per segment id, so that a message that comes twice changes nothing
// and a snapshot after a reconnect puts right whatever was missed.

const log = document.getElementById("log");
const running = document.getElementById("running");
const state = document.getElementById("state");
const KEPT = 500; // elements, for a page that stays open for days
const LISTENING = "Listening";
const MOST_WAITING = 10000; // pieces of 32 ms: five minutes without a connection, 10 MB
const points = { latency: [], rtfx: [] };
let scale = 1;
let retryMs = 250;

function shadeOf(probability) {
  if (probability === null || probability >= 0.8) return "";
  return probability < 0.5 ? "doubtful" : "unsure";
}

function show(element, words, extra) {
  for (const word of words) {
    const text = word.text.trimStart(); // blanks stand between the words, so that no line is under them
    if (text.length < word.text.length && element.childNodes.length) element.append(" ");
    const span = document.createElement("span");
    span.textContent = text;
    span.className = `${shadeOf(word.probability)} ${extra}`.trim();
    element.append(span);
  }
}

function completed(event) {
  if (Number(running.dataset.segment) <= event.segment_id) {
    running.replaceChildren();
    delete running.dataset.segment;
  }
  if (!event.text || document.getElementById(`segment-${event.segment_id}`)) return;
  show(entry(`segment-${event.segment_id}`), event.words, "");
  stayAtEnd();
}

function lost(event) {
  const id = `lost-${event.start_s}`;
  if (document.getElementById(id)) return;
  const item = entry(id);
  item.className = "gap";
  item.textContent = `${(event.end_s - event.start_s).toFixed(1)} s were not heard`;
  stayAtEnd();
}

function entry(id) {
  const item = document.createElement("li");
  item.id = id;
  log.append(item);
  while (log.children.length > KEPT) log.firstElementChild.remove();
  return item;
}

// Follows the newest caption, unless somebody has scrolled back to read.
let following = true;
function stayAtEnd() {
  if (following) log.scrollTop = log.scrollHeight;
}
log.addEventListener("scroll", () => {
  following = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
});

function partial(event) {
  running.dataset.segment = event.segment_id;
  running.replaceChildren();
  show(running, event.committed, "");
  show(running, event.tentative, "tentative");
  running.scrollTop = running.scrollHeight;
}

function draw(name, value, text) {
  if (value === null || value === undefined) return;
  const series = points[name];
  series.push(value);
  if (series.length > 60) series.shift();
  const top = Math.max(...series, 1e-9);
  const step = 240 / Math.max(1, series.length - 1);
  const line = series.map((v, i) => `${(i * step).toFixed(1)},${(38 - (36 * v) / top).toFixed(1)}`);
  if (line.length === 1) line.push(line[0].replace(/^0.0/, "240")); // a line needs two
  document.querySelector(`#${name} polyline`).setAttribute("points", line.join(" "));
  document.getElementById(`${name}-text`).textContent = text;
  document.getElementById(`${name}-top`).textContent = `up to ${top.toFixed(top < 10 ? 2 : 0)}`;
}

function figures(message) {
  const latency = message.final_latency_s;
  if (latency !== null) draw("latency", latency, `Latency: ${latency.toFixed(2)} s from the end of speech to the final text`);
  if (message.rtfx !== null) draw("rtfx", message.rtfx, `Speed: ${message.rtfx.toFixed(1)} times real time`);
}

function take(message) {
  if (message.event === "snapshot") {
    if (message.run !== log.dataset.run) { // the program was started anew, ids begin again
      log.dataset.run = message.run;
      log.replaceChildren();
      running.replaceChildren();
      delete running.dataset.segment;
    }
    document.getElementById("microphone").hidden = !message.browser_microphone;
    points.latency.length = points.rtfx.length = 0;
    message.figures.forEach(figures);
    message.completed.forEach((event) => (event.event === "completed" ? completed : lost)(event));
    if (message.away) away(message.away);
    if (message.partial) partial(message.partial);
    else running.replaceChildren();
  } else if (message.event === "completed") completed(message);
  else if (message.event === "lost") lost(message);
  else if (message.event === "away") away(message);
  else if (message.event === "back") {
    lost(message);
    tell(LISTENING, "on");
  }
  else if (message.event === "partial") partial(message);
  else if (message.event === "figures") figures(message);
  else if (message.event === "end") {
    tell("The stream has ended", "ended");
    ended = true;
    if (recording) microphone();
  }
}

function away(event) {
  tell(`Nothing is heard: ${event.why}`, "lost");
}

let ended = false;

function tell(text, kind) {
  if (ended) return; // nothing that comes later is news
  state.textContent = text;
  state.dataset.kind = kind;
}

function connect() {
  const socket = new WebSocket(new URL("events", location.href.replace(/^http/, "ws")));
  socket.onopen = () => { retryMs = 250; tell(LISTENING, "on"); };
  socket.onmessage = (message) => take(JSON.parse(message.data));
  socket.onclose = () => {
    if (ended) return;
    tell("Connection lost, trying again", "lost");
    setTimeout(connect, retryMs);
    retryMs = Math.min(4000, retryMs * 2);
  };
}

function resize(factor) {
  scale = Math.min(4, Math.max(0.3, scale * factor));
  document.documentElement.style.setProperty("--scale", scale);
  stayAtEnd();
}

function shade() {
  const on = document.body.classList.toggle("shaded");
  document.getElementById("shade").setAttribute("aria-pressed", String(on));
}

let recording = null;
let asking = false; // the browser asks whether the microphone may be used

const silence = (media) => media.getTracks().forEach((track) => track.stop());

// Sends a microphone for as long as it is not stopped; null when the stream has ended meanwhile.
async function record(media) {
  const context = new AudioContext({ sampleRate: 16000 });
  try {
    await context.audioWorklet.addModule("recorder.js");
  } catch (error) {
    context.close();
    throw error;
  }
  if (ended) {
    context.close();
    return null;
  }
  const node = new AudioWorkletNode(context, "recorder");
  const id = crypto.getRandomValues(new Uint32Array(2)).join("-");
  const waiting = []; // what was said while the connection was away
  let socket = null;
  let heard = false;
  let on = true;
  const open = () => {
    if (!on) return; // it was stopped while it waited to connect again
    const address = new URL(`audio?recording=${id}`, location.href.replace(/^http/, "ws"));
    socket = new WebSocket(address);
    socket.onmessage = ({ data }) => {
      // What was said before this page was heard, or while another was, is nobody's business.
      if (data !== "again") waiting.length = 0;
      heard = true;
      tell(LISTENING, "on");
      while (waiting.length) socket.send(waiting.shift());
    };
    socket.onclose = () => {
      heard = false;
      if (!on) return;
      tell("The microphone is not heard: no connection, or another page records", "lost");
      setTimeout(open, 500);
    };
  };
  open();
  node.port.onmessage = ({ data }) => {
    if (heard && socket.readyState === WebSocket.OPEN) socket.send(data);
    else if (waiting.push(data) > MOST_WAITING) waiting.shift();
  };
  context.createMediaStreamSource(media).connect(node);
  return { stop() {
    on = false;
    silence(media);
    context.close();
    socket.close();
  } };
}

async function microphone() {
  const button = document.getElementById("microphone");
  if (asking) return;
  if (recording) {
    recording.stop();
    recording = null;
    button.setAttribute("aria-pressed", "false");
    return;
  }
  if (ended) return;
  asking = true;
  let media = null;
  try {
    media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    if (!ended) recording = await record(media); // it may be allowed long after it was asked for
    if (recording) button.setAttribute("aria-pressed", "true");
  } catch (error) {
    tell(`The microphone cannot be used: ${error.message}`, "lost");
  } finally {
    if (media && !recording) silence(media);
    asking = false;
  }
}

document.getElementById("larger").onclick = () => resize(1.15);
document.getElementById("smaller").onclick = () => resize(1 / 1.15);
document.getElementById("shade").onclick = shade;
document.getElementById("microphone").onclick = microphone;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "+" || event.key === "=") resize(1.15);
  else if (event.key === "-") resize(1 / 1.15);
  else if (event.key === "c") shade();
  else if (event.key === "m" && !document.getElementById("microphone").hidden) microphone();
});
new ResizeObserver(stayAtEnd).observe(log);
document.body.classList.add("shaded");
connect();
