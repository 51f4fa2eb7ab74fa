// One recording on the page: how far it is, its segments, and the files that it can be kept as.

export function clock(seconds) {
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 60) % 60, whole % 60].map((n) => String(n).padStart(2, "0"));
  const hours = Math.floor(whole / 3600);
  return (hours ? [hours, ...parts] : [String(Number(parts[0])), parts[1]]).join(":");
}

export class Result {
  constructor(name, results) {
    const copy = document.getElementById("result").content.cloneNode(true);
    this.article = copy.querySelector("article");
    this.name = name;
    this.article.setAttribute("aria-label", name);
    this.find("h2").textContent = name;
    this.leaving = new AbortController();
    this.links = [];
    this.button("stop").onclick = () => this.leaving.abort();
    this.button("remove").onclick = () => this.remove();
    results.prepend(copy);
    this.tell("waits for its turn");
  }

  find(selector) {
    return this.article.querySelector(selector);
  }

  button(action) {
    return this.find(`[data-action=${action}]`);
  }

  tell(text, wrong = false) {
    const state = this.find(".state");
    state.textContent = text;
    state.classList.toggle("wrong", wrong);
  }

  // How much of it is heard: seconds, and of how many.
  heard(seconds, whole) {
    this.tell(whole ? `${clock(seconds)} of ${clock(whole)}` : `${clock(seconds)} heard`);
    this.find(".progress").hidden = !whole;
    const part = whole ? Math.min(1, seconds / whole) : 0;
    this.find(".progress span").style.transform = `scaleX(${part})`;
  }

  add(segment) {
    const line = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = clock(segment.start);
    const text = document.createElement("span");
    text.textContent = segment.text;
    line.append(time, text);
    const list = this.find("ol");
    const follows = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
    list.append(line);
    if (follows) list.scrollTop = list.scrollHeight;
  }

  done({ files, duration, language }) {
    const place = this.find(".files");
    const stem = this.name.replace(/\.[^.]+$/, "");
    for (const { suffix, label, media_type: type, text } of files) {
      place.append(this.saver(label, `${stem}.${suffix}`, new Blob([text], { type })));
    }
    place.setAttribute("aria-label", `Save ${this.name}`);
    place.hidden = false;
    this.end(`${clock(duration)}, ${language}`);
  }

  saver(label, name, blob) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.onclick = () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    };
    return button;
  }

  end(text, wrong = false) {
    const focused = document.activeElement === this.button("stop");
    this.find(".progress").hidden = true;
    this.button("stop").hidden = true;
    this.button("remove").hidden = false;
    if (focused) this.button("remove").focus();
    this.tell(text, wrong);
  }

  remove() {
    this.article.remove();
    document.getElementById("results").focus();
  }
}
