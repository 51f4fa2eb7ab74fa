// Everything that this page was told, once and in order, also over restarts of the program.

const MOST = 20000; // a day of talk

export class Records {
  list = []; // {run, event}
  run = null;
  #cleared = 0;
  #seen = new Set();

  // Takes what a snapshot begins with. What happened to the text before, if anything: it was cleared
  // meanwhile, the program was started anew, or something is missing behind it.
  begin({ run, completed, more, cleared }) {
    const before = this.run;
    const isCleared = before === run && cleared !== this.#cleared;
    this.run = run;
    this.#cleared = cleared;
    if (before === null) return "";
    if (isCleared) this.list.length = 0;
    if (isCleared) return "cleared";
    if (before !== run) return "anew";
    return more && !completed.some((event) => this.#seen.has(this.#key(event))) ? "missing" : "";
  }

  // Whether it is new.
  add(event) {
    const key = this.#key(event);
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    this.list.push({ run: this.run, event });
    if (this.list.length > MOST) this.#seen.delete(this.#key(this.list[0].event, this.list.shift().run));
    return true;
  }

  // What was said so far is not shown any more, and nobody takes it away.
  clear() {
    this.list.length = 0;
    this.#cleared += 1;
  }

  #key(event, run = this.run) {
    return `${run} ${event.event} ${event.segment_id ?? event.start_s}`;
  }
}
