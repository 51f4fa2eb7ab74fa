// The microphone as a recording.

const RATE_HZ = 16000;
const PIECES_PER_SECOND = 10; // of recorder.js

// A WAV file of 16-bit mono samples.
function makeWav(pieces) {
  const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const header = new DataView(new ArrayBuffer(44));
  const write = (offset, word) =>
    [...word].forEach((letter, index) => header.setUint8(offset + index, letter.charCodeAt(0)));
  write(0, "RIFF");
  header.setUint32(4, 36 + size, true);
  write(8, "WAVEfmt ");
  header.setUint32(16, 16, true); // bytes of what follows up to "data"
  header.setUint16(20, 1, true); // PCM
  header.setUint16(22, 1, true); // channels
  header.setUint32(24, RATE_HZ, true);
  header.setUint32(28, 2 * RATE_HZ, true); // bytes a second
  header.setUint16(32, 2, true); // bytes a frame
  header.setUint16(34, 16, true); // bits a sample
  write(36, "data");
  header.setUint32(40, size, true);
  return new Blob([header, ...pieces], { type: "audio/wav" });
}

// Records until it is stopped, or for `maxSeconds`. `showSeconds` is called with the seconds so far,
// `end` with the file, or null if nothing was recorded. Returns a function that stops it.
export async function record(maxSeconds, showSeconds, end) {
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext({ sampleRate: RATE_HZ });
  const pieces = [];
  let isOn = true;
  const stop = () => {
    if (!isOn) return;
    isOn = false;
    media.getTracks().forEach((track) => track.stop());
    context.close();
    const name = `recording ${new Date().toLocaleString("sv").replaceAll(":", "-")}.wav`;
    end(pieces.length ? new File([makeWav(pieces)], name) : null);
  };
  try {
    await context.audioWorklet.addModule("page/recorder.js");
  } catch (error) {
    stop();
    throw error;
  }
  const node = new AudioWorkletNode(context, "recorder");
  node.port.onmessage = ({ data }) => {
    if (!isOn) return;
    pieces.push(data);
    const seconds = pieces.length / PIECES_PER_SECOND;
    showSeconds(seconds);
    if (seconds >= maxSeconds) stop();
  };
  media.getTracks()[0].onended = stop; // the microphone was unplugged
  context.createMediaStreamSource(media).connect(node);
  return stop;
}
