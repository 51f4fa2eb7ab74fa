// This page's own microphone, sent to the program that captions.

import { address } from "./connection.js";
import { hasEnded, isSomebodyHeard, note } from "./status.js";

const RETRY_MS = 500;
const MOST_WAITING = 10000; // pieces of 32 ms: five minutes without a connection, 10 MB

const button = document.getElementById("microphone");
let recording = null;
let asking = false; // the browser asks whether the microphone may be used

const silence = (media) => media.getTracks().forEach((track) => track.stop());

// Turns it on or off.
export async function press() {
  if (asking) return;
  if (recording) return stop();
  if (hasEnded()) return;
  if (!navigator.mediaDevices) return note({ own: ["lost", "insecure"] });
  asking = true;
  note({ own: ["waiting", "asking"] });
  let media = null;
  try {
    media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    if (!hasEnded()) recording = await record(media); // it may be allowed long after it was asked for
    note({ own: null });
  } catch (error) {
    note({ own: ["lost", "denied", error.message] });
  } finally {
    if (media && !recording) silence(media);
    asking = false;
    button.setAttribute("aria-pressed", String(Boolean(recording)));
  }
}

export function stop() {
  recording?.stop();
  recording = null;
  button.setAttribute("aria-pressed", "false");
  note({ own: null });
}

// Sends a microphone for as long as it is not stopped; null when the captions have ended meanwhile.
async function record(media) {
  const context = new AudioContext({ sampleRate: 16000 });
  try {
    await context.audioWorklet.addModule("recorder.js");
    await context.resume();
  } catch (error) {
    context.close();
    throw error;
  }
  if (hasEnded()) {
    context.close();
    return null;
  }
  const line = new Line();
  const node = new AudioWorkletNode(context, "recorder");
  node.port.onmessage = ({ data }) => line.send(data);
  context.createMediaStreamSource(media).connect(node);
  media.getTracks().forEach((track) => { track.onended = stop; }); // it was unplugged
  return {
    stop() {
      line.close();
      silence(media);
      context.close();
    },
  };
}

// A connection for sound. What is said while nobody has let it in is kept nowhere; what is said
// while it was let in and is away waits, unless another page is heard meanwhile.
class Line {
  #id = crypto.getRandomValues(new Uint32Array(2)).join("-");
  #waiting = [];
  #socket = null;
  #heard = false;
  #keeps = false;
  #on = true;
  #timer = null;

  constructor() {
    this.#open();
  }

  send(piece) {
    if (this.#heard && this.#socket.readyState === WebSocket.OPEN) this.#socket.send(piece);
    else if (this.#keeps && this.#waiting.push(piece) > MOST_WAITING) this.#waiting.shift();
  }

  close() {
    this.#on = false;
    clearTimeout(this.#timer);
    this.#socket.close();
  }

  #open() {
    this.#socket = new WebSocket(address(`audio?recording=${this.#id}`));
    this.#socket.onmessage = ({ data }) => {
      if (data !== "again") this.#waiting.length = 0; // another was heard since, or the program is new
      this.#heard = this.#keeps = true;
      note({ own: null });
      while (this.#waiting.length) this.#socket.send(this.#waiting.shift());
    };
    this.#socket.onclose = () => {
      this.#heard = false;
      if (!this.#on) return;
      if (isSomebodyHeard()) note({ own: ["lost", "taken"] });
      this.#timer = setTimeout(() => this.#open(), RETRY_MS);
    };
  }
}
