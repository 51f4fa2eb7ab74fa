// Plays a recording beside its text: the line and the word that are heard are marked.

// One for all players: a name has one highlight. Browsers without it mark lines only.
const word = typeof Highlight === "function" ? new Highlight() : null;
if (word) CSS.highlights.set("word", word);

export class Player {
  constructor(audio, list, file) {
    this.audio = audio;
    this.list = list;
    this.lines = [];
    this.line = null;
    audio.src = URL.createObjectURL(file);
    audio.onloadedmetadata = () => this.enable(); // a kind that this browser cannot play stays hidden
    audio.ontimeupdate = () => this.mark();
    audio.onplay = () => this.follow();
    list.onclick = ({ target }) => this.jump(target.closest("li"));
    list.onkeydown = (event) => this.moveFocus(event);
  }

  enable() {
    this.audio.hidden = false;
    for (const button of this.buttons()) button.disabled = false;
  }

  buttons() {
    return [...this.list.querySelectorAll("button")];
  }

  // The time of a line, from which it plays. The list is one stop of the Tab key.
  makeButton(time) {
    const button = document.createElement("button");
    button.type = "button";
    button.disabled = this.audio.hidden;
    button.tabIndex = this.lines.length ? -1 : 0;
    button.setAttribute("aria-label", `Play from ${time}`);
    const label = document.createElement("time");
    label.textContent = time;
    button.append(label);
    return button;
  }

  // Arrow keys, Home and End lead from line to line.
  moveFocus(event) {
    const buttons = this.buttons();
    const index = buttons.indexOf(document.activeElement);
    const last = buttons.length - 1;
    const next = { ArrowUp: index - 1, ArrowDown: index + 1, Home: 0, End: last }[event.key];
    if (index < 0 || next === undefined) return;
    event.preventDefault(); // or the list would scroll
    const target = buttons[Math.max(0, Math.min(last, next))];
    buttons[index].tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }

  // `words` are starts in seconds with texts that follow each other in the line's own text.
  add(line, start, end, words) {
    this.lines.push({ line, start, end, words });
  }

  jump(line) {
    const found = this.lines.find((one) => one.line === line);
    const isSelecting = String(getSelection());
    if (!found || this.audio.hidden || isSelecting) return;
    this.audio.currentTime = found.start;
    this.audio.play().catch(() => {}); // a pause, or removal, may come first
  }

  // The browser's own event comes four times a second, too seldom for words.
  follow() {
    if (this.audio.paused) return;
    this.mark();
    requestAnimationFrame(() => this.follow());
  }

  mark() {
    const now = this.audio.currentTime;
    const current = this.lines.find((one) => one.start <= now && now < one.end);
    if (current?.line !== this.line) {
      this.line?.removeAttribute("aria-current");
      this.line = current?.line ?? null;
      this.line?.setAttribute("aria-current", "true");
      if (!this.audio.paused) this.line?.scrollIntoView({ block: "nearest" });
    }
    if (word) this.markWord(current, now);
  }

  markWord(current, now) {
    word.clear();
    const index = current ? current.words.findLastIndex(([start]) => start <= now) : -1;
    if (index < 0) return;
    const node = current.line.lastChild.firstChild;
    const before = current.words.slice(0, index).map(([, text]) => text).join("").trimStart();
    const text = current.words[index][1];
    const space = before ? text.length - text.trimStart().length : 0;
    const from = Math.min(before.length + space, node.length);
    const range = new Range();
    range.setStart(node, from);
    range.setEnd(node, Math.min(from + text.trim().length, node.length));
    word.add(range);
  }

  close() {
    this.audio.ontimeupdate = null; // it comes once more after a pause
    this.audio.pause();
    URL.revokeObjectURL(this.audio.src);
    word?.clear();
  }
}
