// One flowing text: paragraphs of segments, and at the end what is being said.

import { label } from "./language.js";

const MAX_SEGMENTS = 1000; // segments on the page, which may stay open for days
const PAUSE_S = 2; // behind a sentence it begins a paragraph, and so does a sentence in one that is long
const LONG_PAUSE_S = 5; // begins one wherever it is
const SHORT_PARAGRAPH = 60; // characters; less is no paragraph of its own
const LONG_PARAGRAPH = 350;
const MARKED_WORDS = 5; // of those that may change: the last ones, which change most
// Words of less probability, so many in a row, are guesses. With base on 557 words of people 11 are hidden, 9 of them wrong.
const GUESS = 0.5;
const MIN_GUESSES = 2;
// A segment whose words are less likely on average is a guess as a whole: several people at once. With base, segments
// of two equal voices had 0.36 to 0.57, those of one voice 0.76 and more.
const GUESSED_SEGMENT = 0.6;
const MIN_SEGMENT = 4; // words; in fewer the average says little
const SENTENCE = /[.!?。！？]["”»']?$/;
const FULL_STOP = /(\.+|…)$/;
const ELLIPSIS = /(\.{2,}|…)$/;
const LOWER_CASE = /^\s*\p{Ll}/u;

function shadeOf(probability) {
  if (probability === null || probability >= 0.8) return "";
  return probability < 0.5 ? "doubtful" : "unsure";
}

function isGuessedSegment(words) {
  const probabilities = words.map(({ probability }) => probability).filter((probability) => probability !== null);
  if (probabilities.length < MIN_SEGMENT) return false;
  const sum = probabilities.reduce((total, probability) => total + probability, 0);
  return sum / probabilities.length < GUESSED_SEGMENT;
}

// Returns the words in groups, those of guesses apart: several doubtful ones in a row, or all of a doubtful segment.
function* groupGuesses(words) {
  if (isGuessedSegment(words)) {
    yield { words, isGuessed: true };
    return;
  }
  let plain = [];
  let guesses = [];
  const isGuess = ({ probability }) => probability !== null && probability < GUESS;
  for (const word of words) {
    if (isGuess(word)) {
      guesses.push(word);
      continue;
    }
    if (guesses.length >= MIN_GUESSES) {
      if (plain.length) yield { words: plain, isGuessed: false };
      yield { words: guesses, isGuessed: true };
      plain = [];
    } else {
      plain.push(...guesses);
    }
    guesses = [];
    plain.push(word);
  }
  const isGuessed = guesses.length >= MIN_GUESSES;
  if (!isGuessed) plain.push(...guesses);
  if (plain.length) yield { words: plain, isGuessed: false };
  if (isGuessed) yield { words: guesses, isGuessed: true };
}

// Writes settled words; guesses stand beside a mark, and the reader's setting shows either.
function writeSettled(element, words) {
  for (const group of groupGuesses(words)) {
    if (group.isGuessed) {
      const mark = document.createElement("span");
      mark.className = "unclear";
      label(mark, "unclear_mark");
      if (element.childNodes.length) element.append(" ");
      element.append(mark);
    }
    write(element, group.words, group.isGuessed ? "guess" : "");
  }
}

// Words as few pieces of text: neighbours of one shade are one. What may change has one line under it and no shades,
// which say how sure settled words are.
function write(element, words, extra = "") {
  let last = null;
  for (const word of words) {
    const shade = extra === "tentative" ? "" : shadeOf(word.probability);
    const name = `${shade} ${extra}`.trim();
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
    const quiet = Math.max(0, event.tentative.length - MARKED_WORDS);
    write(this.#running, [...event.committed, ...event.tentative.slice(0, quiet)]);
    write(this.#running, event.tentative.slice(quiet), "tentative");
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
    writeSettled(segment, event.words);
    if (LOWER_CASE.test(event.text)) this.#hideEnd(FULL_STOP);
    else if (event.start_s - this.#endS < PAUSE_S) this.#hideEnd(ELLIPSIS);
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
    this.#removeEnd();
    const isSpeaking = this.#running.isConnected;
    this.#removeRunning();
    const line = document.createElement("p");
    line.className = "note";
    label(line, key, value);
    this.#area.append(line);
    this.#paragraph = null;
    if (isSpeaking) this.#place(this.#running, this.#partial);
  }

  // Adds a mark in the text, where something was said that has no words.
  addMark(key, value = "") {
    const mark = document.createElement("span");
    mark.className = "mark";
    label(mark, key, value);
    if (!this.#paragraph) this.#beginParagraph({});
    if (this.#running.isConnected) this.#running.before(mark, " ");
    else this.#paragraph.append(" ", mark);
  }

  // Says that nothing follows, once.
  end() {
    this.clearPartial();
    this.addNote("ended_here");
  }

  // What comes now shows that it was not the end.
  #removeEnd() {
    const last = this.#area.lastElementChild;
    if (last?.dataset.text === "ended_here") last.remove();
  }

  // A sentence that goes on in the next segment: its full stop was a guess, and so are the three dots of a voice that
  // hardly paused. They stay in the files.
  #hideEnd(end) {
    const piece = [...this.#area.querySelectorAll(".segment > span")].at(-1);
    if (!piece || !this.#paragraph?.contains(piece)) return;
    const mark = end.exec(piece.textContent);
    if (!mark) return;
    const hidden = document.createElement("span");
    hidden.hidden = true;
    hidden.textContent = mark[0];
    piece.textContent = piece.textContent.slice(0, mark.index);
    piece.append(hidden);
  }

  #place(element, event) {
    if (this.#needsParagraph(event)) this.#beginParagraph(event);
    this.#paragraph.append(" ", element);
  }

  #needsParagraph(event) {
    if (!this.#paragraph) return true;
    const pauseS = event.start_s - this.#endS;
    if (pauseS >= LONG_PAUSE_S) return true;
    const paragraph = this.#paragraph.textContent.trim();
    if (paragraph.length < SHORT_PARAGRAPH || !SENTENCE.test(paragraph)) return false;
    return pauseS >= PAUSE_S || paragraph.length > LONG_PARAGRAPH;
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
