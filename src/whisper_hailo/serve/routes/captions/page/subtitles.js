// What was said, as text and as subtitles of two lines of 42 characters, which end with a sentence
// or a clause where possible.

const WIDTH = 42;
const LINES = 2;
const SENTENCE = /[.!?…。！？]["”»']?$/;
const CLAUSE = /[,;:–—、，；：]["”»']?$/;

// A line for each segment, with the time of day if that is wanted.
export function asText(records, withTimes) {
  const lines = records.filter(isSaid).map(({ event }) => {
    const at = withTimes && event.at ? `${new Date(event.at).toLocaleTimeString()}  ` : "";
    return `${at}${event.text}\n${event.translation ? `${event.translation}\n` : ""}`;
  });
  return lines.join("");
}

export function asSrt(records) {
  return cuesOf(records)
    .map(({ startS, endS, text }, index) => `${index + 1}\n${formatSpan(startS, endS, ",")}\n${text}\n\n`)
    .join("");
}

export function asVtt(records) {
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const cues = cuesOf(records)
    .map(({ startS, endS, text }) => `${formatSpan(startS, endS, ".")}\n${safe(text)}\n\n`);
  return `WEBVTT\n\n${cues.join("")}`;
}

const isSaid = ({ event }) => event.event === "completed";

function cuesOf(records) {
  const said = records.filter(isSaid);
  const beginS = new Map(); // when each run began, in seconds since 1970
  for (const { run, event } of said) {
    if (!beginS.has(run) && event.at) beginS.set(run, Date.parse(event.at) / 1000 - event.start_s);
  }
  const first = beginS.get(said[0]?.run) ?? 0;
  return said.flatMap(({ run, event }) => {
    const shift = Math.max(0, (beginS.get(run) ?? first) - first);
    return [...splitSegment(addTimes(event))].map(({ startS, endS, text }) =>
      ({ startS: startS + shift, endS: endS + shift, text }));
  });
}

// Words with times; those that have none share the segment's by their length.
function addTimes({ words, start_s: startS, end_s: endS }) {
  const letters = words.reduce((sum, { text }) => sum + text.length, 0) || 1;
  let at = 0;
  return words.map((word) => {
    const begin = startS + ((endS - startS) * at) / letters;
    at += word.text.length;
    const end = startS + ((endS - startS) * at) / letters;
    return { text: word.text, startS: word.start_s ?? begin, endS: word.end_s ?? end };
  });
}

function* splitSegment(words) {
  while (words.length) {
    let fitting = 1;
    while (fitting < words.length && linesOf(words.slice(0, fitting + 1)).length <= LINES) fitting += 1;
    const count = fitting < words.length ? findBreak(words, fitting) : fitting;
    const cue = words.slice(0, count);
    yield { startS: cue[0].startS, endS: cue.at(-1).endS, text: linesOf(cue).join("\n") };
    words = words.slice(count);
  }
}

// Returns how many of the words that fit make a cue: up to the last end of a sentence, else of a
// clause.
function findBreak(words, fitting) {
  for (const end of [SENTENCE, CLAUSE]) {
    for (let count = fitting; count > fitting / 3; count -= 1) {
      if (end.test(words[count - 1].text.trimEnd())) return count;
    }
  }
  return fitting;
}

function linesOf(words) {
  const lines = [""];
  for (const { text } of words) {
    const longer = lines.at(-1) + text;
    if (longer.trim().length <= WIDTH || !lines.at(-1).trim()) lines[lines.length - 1] = longer;
    else lines.push(text);
  }
  return lines.map((line) => line.trim());
}

function formatSpan(startS, endS, mark) {
  return `${formatTime(startS, mark)} --> ${formatTime(Math.max(startS, endS), mark)}`;
}

function formatTime(seconds, mark) {
  const ms = Math.round(seconds * 1000);
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const clock = `${two(ms / 3600000)}:${two((ms / 60000) % 60)}:${two((ms / 1000) % 60)}`;
  return `${clock}${mark}${String(ms % 1000).padStart(3, "0")}`;
}
