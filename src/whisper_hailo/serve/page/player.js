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
    audio.onloadedmetadata = () => { audio.hidden = false; }; // a kind that this browser cannot play stays hidden
    audio.ontimeupdate = () => this.mark();
    audio.onplay = () => this.follow();
    list.onclick = ({ target }) => this.jump(target.closest("li"));
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
