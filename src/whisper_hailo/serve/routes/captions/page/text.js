// One flowing text: paragraphs of segments, and at the end what is being said.

import { label } from "./language.js";

const MAX_SEGMENTS = 1000; // segments on the page, which may stay open for days
const PAUSE_S = 2; // begins a paragraph, and so does a sentence in one that is long
const LONG_PARAGRAPH = 500; // characters
const SENTENCE = /[.!?…。！？]["”»']?$/;

function shadeOf(probability) {
  if (probability === null || probability >= 0.8) return "";
  return probability < 0.5 ? "doubtful" : "unsure";
}

// Words as few pieces of text: neighbours of one shade are one.
function write(element, words, extra = "") {
  let last = null;
  for (const word of words) {
    const name = `${shadeOf(word.probability)} ${extra}`.trim();
    if (last?.className === name) {
      last.textContent += word.text;
      continue;
    }
    // Blanks stand between the pieces, so that no line is under them.
    const bare = word.text.trimStart();
    if (bare.length < word.text.length && element.childNodes.length) element.append(" ");
    last = document.createElement("span");
    last.className = name;
    last.textContent = bare;
    element.append(last);
  }
}

// Returns a line with the English text, for under the original.
function makeTranslation(text) {
  const line = document.createElement("span");
  line.className = "translation";
  line.lang = "en";
  line.textContent = text;
  return line;
}

export class Text {
  #area;
  #running = document.createElement("span");
  #paragraph = null; // where the text goes on
  #partial = null; // what is being said
  #endS = 0;
  #count = 0;

  constructor(area) {
    this.#area = area;
    this.#running.id = "running";
    this.#running.setAttribute("aria-live", "off"); // what may change is not read out
  }

  get isEmpty() {
    return !this.#area.childElementCount;
  }

  showPartial(event) {
    this.#partial = event;
    this.#running.dataset.segment = event.segment_id;
    this.#running.lang = event.language ?? "";
    this.#running.replaceChildren();
    write(this.#running, event.committed);
    write(this.#running, event.tentative, "tentative");
    if (!this.#running.isConnected) this.#place(this.#running, event);
  }

  // Takes the partial text away.
  clearPartial() {
    this.#removeRunning();
    this.#running.replaceChildren();
  }

  #removeRunning() {
    const paragraph = this.#running.parentElement;
    this.#running.remove();
    if (paragraph && !paragraph.querySelector(".segment")) {
      paragraph.remove();
      if (paragraph === this.#paragraph) this.#paragraph = null;
    }
  }

  // Takes everything away.
  clear() {
    this.clearPartial();
    this.#area.replaceChildren();
    this.#paragraph = null;
    this.#count = 0;
  }

  // Adds a segment; returns whether the beginning was taken away to make room.
  addSegment(event) {
    const segment = document.createElement("span");
    segment.className = "segment";
    segment.dataset.segment = event.segment_id;
    if (event.language) segment.lang = event.language;
    write(segment, event.words);
    if (this.#running.isConnected) this.#running.replaceWith(segment);
    else this.#place(segment, event);
    if (event.translation) segment.after(makeTranslation(event.translation));
    this.#running.replaceChildren();
    this.#endS = event.end_s;
    this.#count += 1;
    return this.#trim();
  }

  // Adds a line of the page itself between what was said.
  addNote(key, value = "") {
    const isSpeaking = this.#running.isConnected;
    this.#removeRunning();
    const line = document.createElement("p");
    line.className = "note";
    label(line, key, value);
    this.#area.append(line);
    this.#paragraph = null;
    if (isSpeaking) this.#place(this.#running, this.#partial);
  }

  #place(element, event) {
    if (this.#needsParagraph(event)) this.#beginParagraph(event);
    this.#paragraph.append(" ", element);
  }

  #needsParagraph(event) {
    if (!this.#paragraph) return true;
    if (event.start_s - this.#endS >= PAUSE_S) return true;
    const paragraph = this.#paragraph.textContent;
    return paragraph.length > LONG_PARAGRAPH && SENTENCE.test(paragraph.trimEnd());
  }

  #beginParagraph(event) {
    this.#paragraph = document.createElement("p");
    this.#paragraph.dir = "auto";
    if (event.at) {
      const time = document.createElement("time");
      time.dateTime = event.at;
      time.textContent = new Date(event.at).toLocaleTimeString([], { timeStyle: "short" });
      this.#paragraph.append(time);
    }
    this.#area.append(this.#paragraph);
  }

  #trim() {
    const countBefore = this.#count;
    while (this.#count > MAX_SEGMENTS && this.#area.firstElementChild !== this.#paragraph) {
      this.#count -= this.#area.firstElementChild.querySelectorAll(".segment").length;
      this.#area.firstElementChild.remove();
    }
    return this.#count < countBefore;
  }
}
