// Saves or copies what was said.

import { asSrt, asText, asVtt } from "./subtitles.js";
import { setting } from "./settings.js";

const FORMATS = {
  txt: [(records) => asText(records, setting("times")), "text/plain"],
  srt: [asSrt, "application/x-subrip"],
  vtt: [asVtt, "text/vtt"],
};

export function save(records, kind) {
  const [write, type] = FORMATS[kind];
  const url = URL.createObjectURL(new Blob([write(records)], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `captions-${stamp()}.${kind}`;
  link.click();
  URL.revokeObjectURL(url);
}

// Copies the text; returns whether it could be copied. Pages of plain HTTP can only copy what is
// selected: `parent` is where a text field stands for a moment.
export async function copy(records, parent) {
  const text = asText(records, setting("times"));
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const field = document.createElement("textarea");
  field.value = text;
  parent.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  return copied;
}

// 2026-11-22-2015, local time.
function stamp() {
  const now = new Date();
  const local = new Date(now - 60000 * now.getTimezoneOffset()).toISOString();
  return `${local.slice(0, 10)}-${local.slice(11, 16).replace(":", "")}`;
}
