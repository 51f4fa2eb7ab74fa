// Takes what was said out of the page.

import { asSrt, asText, asVtt } from "./subtitles.js";
import { setting } from "./settings.js";

const TYPES = {
  txt: [(records) => asText(records, setting("times")), "text/plain"],
  srt: [asSrt, "application/x-subrip"],
  vtt: [asVtt, "text/vtt"],
};

export function save(records, kind) {
  const [write, type] = TYPES[kind];
  const url = URL.createObjectURL(new Blob([write(records)], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `captions-${stamp()}.${kind}`;
  link.click();
  URL.revokeObjectURL(url);
}

// Whether it could be copied. Where the page came over plain HTTP there is no clipboard but that of
// what is selected; `near` is where a field may stand for a moment.
export async function copy(records, near) {
  const text = asText(records, setting("times"));
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(() => true, () => false);
  }
  const field = document.createElement("textarea");
  field.value = text;
  near.append(field);
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
