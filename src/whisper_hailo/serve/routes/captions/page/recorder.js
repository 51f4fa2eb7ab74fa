// Collects the microphone's samples into pieces of 32 ms of 16-bit mono.
class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(512);
    this.filled = 0;
  }
  process(inputs) {
    const samples = inputs[0][0];
    if (!samples) return true;
    for (const sample of samples) {
      this.piece[this.filled++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
      if (this.filled === this.piece.length) {
        this.port.postMessage(this.piece.buffer.slice(0));
        this.filled = 0;
      }
    }
    return true;
  }
}
registerProcessor("recorder", Recorder);
