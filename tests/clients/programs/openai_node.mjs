// OpenAI's package for Node: `node openai_node.mjs ADDRESS WAV`.
import { createReadStream, readFileSync } from "node:fs";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";

const [address, wav] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
const HEADER_BYTES = 44;
const BLOCK_BYTES = 24_000; // half a second at 24 kHz
const PATIENCE_MS = 15_000;

const report = (name, text) => console.log(JSON.stringify({ case: name, text }));

for (const model of ["gpt-transcribe", "whisper-1", "gpt-4o-transcribe"]) {
  const answer = await client.audio.transcriptions.create({ file: createReadStream(wav), model });
  report(model, answer.text);
}
const stream = await client.audio.transcriptions.create({
  file: createReadStream(wav),
  model: "gpt-transcribe",
  stream: true,
});
for await (const event of stream) {
  if (event.type === "transcript.text.done") report("stream", event.text);
}

/** Return 16-bit samples at 24 kHz of a WAV file at 16 kHz, and two seconds of silence. */
function readSound() {
  const bytes = readFileSync(wav).subarray(HEADER_BYTES);
  const samples = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
  const sound = Buffer.alloc(3 * samples.length + 4 * BLOCK_BYTES);
  for (let index = 0; index < samples.length * 1.5; index += 1) {
    const place = index / 1.5;
    const before = samples[Math.floor(place)];
    const after = samples[Math.min(Math.ceil(place), samples.length - 1)];
    const value = before + (after - before) * (place - Math.floor(place));
    sound.writeInt16LE(Math.round(value), 2 * index);
  }
  return sound;
}

const socket = await OpenAIRealtimeWS.create(client, { model: "gpt-transcribe" });
const texts = [];
await new Promise((resolve, reject) => {
  let timer = setTimeout(resolve, 4 * PATIENCE_MS);
  socket.on("error", (error) => (texts.length ? resolve() : reject(error)));
  socket.on("conversation.item.input_audio_transcription.completed", (event) => {
    texts.push(event.transcript);
    clearTimeout(timer);
    timer = setTimeout(resolve, PATIENCE_MS);
  });
  socket.socket.on("open", () => {
    const transcription = { model: "gpt-transcribe", language: "en" };
    const audio = { input: { transcription } };
    socket.send({ type: "session.update", session: { type: "transcription", audio } });
    const sound = readSound();
    for (let start = 0; start < sound.length; start += BLOCK_BYTES) {
      const block = sound.subarray(start, start + BLOCK_BYTES);
      socket.send({ type: "input_audio_buffer.append", audio: block.toString("base64") });
    }
    socket.send({ type: "input_audio_buffer.commit" });
  });
});
socket.close();
report("realtime", texts.join(" "));
