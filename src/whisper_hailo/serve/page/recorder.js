// Collects the microphone's samples into pieces of a tenth of a second of 16-bit mono.
class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(1600);
    this.filled = 0;
  }

  process(inputs) {
    for (const sample of inputs[0][0] ?? []) {
      this.piece[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === this.piece.length) {
        this.port.postMessage(this.piece.buffer.slice(0));
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
