// The microphone of this page, sent to the program that captions it.

import { address } from "./connection.js";
import { hasEnded, isMicrophoneTaken, updateStatus } from "./status.js";

const RETRY_MS = 500;
const MAX_WAITING = 10000; // pieces of 32 ms: five minutes without a connection, 10 MB

const button = document.getElementById("microphone");
let recording = null;
let isAsking = false; // the browser asks whether the microphone may be used

const stopTracks = (media) => media.getTracks().forEach((track) => track.stop());

// Turns the microphone on or off.
export async function toggleMicrophone() {
  if (isAsking) return;
  if (recording) return stopMicrophone();
  if (hasEnded()) return;
  if (!navigator.mediaDevices) return updateStatus({ own: ["lost", "insecure"] });
  isAsking = true;
  updateStatus({ own: ["waiting", "asking"] });
  let media = null;
  try {
    media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    if (!hasEnded()) recording = await record(media); // it may be allowed long after it was asked for
    updateStatus({ own: null });
  } catch (error) {
    updateStatus({ own: ["lost", "denied", error.message] });
  } finally {
    if (media && !recording) stopTracks(media);
    isAsking = false;
    button.setAttribute("aria-pressed", String(Boolean(recording)));
  }
}

export function stopMicrophone() {
  recording?.stop();
  recording = null;
  button.setAttribute("aria-pressed", "false");
  updateStatus({ own: null });
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
  const socket = new SoundSocket();
  const node = new AudioWorkletNode(context, "recorder");
  node.port.onmessage = ({ data }) => socket.send(data);
  context.createMediaStreamSource(media).connect(node);
  media.getTracks().forEach((track) => { track.onended = stopMicrophone; }); // it was unplugged
  return {
    stop() {
      socket.close();
      stopTracks(media);
      context.close();
    },
  };
}

// A connection for sound. Until the server takes it, sound is dropped; while a connection that was
// taken is lost, sound waits, unless another page is taken meanwhile.
class SoundSocket {
  #id = crypto.getRandomValues(new Uint32Array(2)).join("-");
  #waiting = [];
  #socket = null;
  #isTaken = false;
  #keepsSound = false;
  #isOn = true;
  #timer = null;

  constructor() {
    this.#open();
  }

  send(piece) {
    if (this.#isTaken && this.#socket.readyState === WebSocket.OPEN) this.#socket.send(piece);
    else if (this.#keepsSound && this.#waiting.push(piece) > MAX_WAITING) this.#waiting.shift();
  }

  close() {
    this.#isOn = false;
    clearTimeout(this.#timer);
    this.#socket.close();
  }

  #open() {
    this.#socket = new WebSocket(address(`audio?recording=${this.#id}`));
    this.#socket.onmessage = ({ data }) => {
      if (data !== "again") this.#waiting.length = 0; // another page was taken since, or the program was restarted
      this.#isTaken = this.#keepsSound = true;
      updateStatus({ own: null });
      while (this.#waiting.length) this.#socket.send(this.#waiting.shift());
    };
    this.#socket.onclose = () => {
      this.#isTaken = false;
      if (!this.#isOn) return;
      if (isMicrophoneTaken()) updateStatus({ own: ["lost", "taken"] });
      this.#timer = setTimeout(() => this.#open(), RETRY_MS);
    };
  }
}
