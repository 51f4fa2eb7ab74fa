// The microphone as a recording.

const RATE_HZ = 16000;

// A WAV file of 16-bit mono samples.
function wav(pieces) {
  const size = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const head = new DataView(new ArrayBuffer(44));
  const text = (at, word) => [...word].forEach((c, i) => head.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  head.setUint32(4, 36 + size, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true);
  head.setUint16(22, 1, true);
  head.setUint32(24, RATE_HZ, true);
  head.setUint32(28, 2 * RATE_HZ, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  text(36, "data");
  head.setUint32(40, size, true);
  return new Blob([head, ...pieces], { type: "audio/wav" });
}

// Records until it is stopped, or for so long at most; `heard` is told of the seconds so far.
export async function record(mostSeconds, heard, ended) {
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
    ended(pieces.length ? new File([wav(pieces)], name) : null);
  };
  try {
    await context.audioWorklet.addModule("page/recorder.js");
  } catch (error) {
    pieces.length = 0;
    stop();
    throw error;
  }
  const node = new AudioWorkletNode(context, "recorder");
  node.port.onmessage = ({ data }) => {
    if (!isOn) return;
    pieces.push(data);
    const seconds = pieces.length / 10;
    heard(seconds);
    if (seconds >= mostSeconds) stop();
  };
  media.getTracks()[0].onended = stop; // the microphone was taken away
  context.createMediaStreamSource(media).connect(node);
  return stop;
}
