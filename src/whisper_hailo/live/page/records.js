// Everything that this page was told, once and in order, also over restarts of the program.

const MOST = 20000; // a day of talk

export class Records {
  list = []; // {run, event}
  run = null;
  #seen = new Set();

  // Takes what a snapshot begins with; whether the program was started anew, or something is missing.
  begin({ run, completed, more }) {
    const before = this.run;
    this.run = run;
    if (before === null) return "";
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

  #key(event, run = this.run) {
    return `${run} ${event.event} ${event.segment_id ?? event.start_s}`;
  }
}
