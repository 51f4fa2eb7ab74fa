// Everything that was sent to this page, once and in order, also over restarts of the program.

const MAX_RECORDS = 20000; // a day of talk

export class Records {
  list = []; // {run, event}
  run = null;
  #cleared = 0;
  #seen = new Set();

  // Begins with a snapshot. Returns a key of the texts if something happened to the text before: it
  // was cleared, the program was restarted, or something is missing after it.
  beginSnapshot({ run, completed, more, cleared }) {
    const before = this.run;
    const isCleared = before === run && cleared !== this.#cleared;
    this.run = run;
    this.#cleared = cleared;
    if (before === null) return "";
    if (isCleared) {
      this.list.length = 0;
      return "cleared";
    }
    if (before !== run) return "anew";
    return more && !completed.some((event) => this.#seen.has(this.#key(event))) ? "missing" : "";
  }

  // Adds an event; returns whether it is new.
  add(event) {
    const key = this.#key(event);
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    this.list.push({ run: this.run, event });
    if (this.list.length > MAX_RECORDS) this.#seen.delete(this.#key(this.list[0].event, this.list.shift().run));
    return true;
  }

  // Drops what was said so far.
  clear() {
    this.list.length = 0;
    this.#cleared += 1;
  }

  #key(event, run = this.run) {
    const place = event.event === "completed" ? event.segment_id : event.start_s;
    return `${run} ${event.event} ${place}`;
  }
}
