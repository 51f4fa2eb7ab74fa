// One recording on the page: how far it is, its segments, and the files in which it can be saved.

import { Player } from "./player.js";

const NEAR_PX = 8;

export function clock(seconds) {
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

function makeElement(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

export class Result {
  constructor(file, results) {
    const name = file.name;
    const copy = document.getElementById("result").content.cloneNode(true);
    this.article = copy.querySelector("article");
    this.name = name;
    this.isSilent = true;
    this.speaker = null; // of the last line
    this.article.setAttribute("aria-label", name);
    this.find("h2").textContent = name;
    this.stopping = new AbortController();
    this.button("stop").onclick = () => this.stopping.abort();
    this.button("remove").onclick = () => this.remove();
    this.player = new Player(this.find("audio"), this.find("ol"), file);
    this.find("audio").setAttribute("aria-label", `Play ${name}`);
    results.prepend(copy);
    this.showState("Waiting");
    this.article.scrollIntoView({ block: "nearest" }); // on a phone it is below the choices
  }

  find(selector) {
    return this.article.querySelector(selector);
  }

  button(action) {
    return this.find(`[data-action=${action}]`);
  }

  // Screen readers announce the text when it changes, but not the amount, which changes all the time.
  showState(text, { amount = "", isWrong = false } = {}) {
    const status = this.find(".state [role=status]");
    if (status.textContent !== text) status.textContent = text;
    this.find(".amount").textContent = amount;
    this.find(".state").classList.toggle("wrong", isWrong);
  }

  // How many of its seconds are transcribed; a duration of 0 is not known.
  showProgress(seconds, duration) {
    const total = duration ? ` of ${clock(duration)}` : "";
    this.showState("Transcribing", { amount: `, ${clock(seconds)}${total}` });
    this.find(".progress").hidden = !duration;
    const share = duration ? Math.min(1, seconds / duration) : 0;
    this.find(".progress span").style.transform = `scaleX(${share})`;
  }

  addSegment(segment) {
    const line = document.createElement("li");
    line.append(this.player.makeButton(clock(segment.start)));
    if (segment.speaker !== this.speaker) line.append(makeElement("strong", segment.speaker));
    line.append(makeElement("span", segment.text)); // last: the player marks words in it
    this.speaker = segment.speaker;
    if (segment.text.trim()) this.isSilent = false;
    this.player.add(line, segment.start, segment.end, segment.words);
    const list = this.find("ol");
    // Measured before it grows: only a reader at the end follows it.
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - NEAR_PX;
    list.append(line);
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  }

  showFiles({ files, duration, language, probability }) {
    const group = this.find(".files");
    const plain = files.find(({ suffix }) => suffix === "txt").text.trim();
    if (isSecureContext) group.append(this.makeCopyButton(plain));
    group.append(makeElement("span", "Save as"));
    const stem = this.name.replace(/\.[^.]+$/, "");
    for (const { suffix, label, media_type: type, text } of files) {
      group.append(this.makeSaveButton(label, `${stem}.${suffix}`, new Blob([text], { type })));
    }
    group.setAttribute("aria-label", `Copy or save ${this.name}`);
    group.hidden = false;
    const share = probability ? ` (${Math.round(100 * probability)} % sure)` : "";
    this.end(this.isSilent ? `${clock(duration)}, no speech` : `${clock(duration)}, ${language}${share}`);
  }

  makeCopyButton(text) {
    const button = makeElement("button", "Copy text");
    button.type = "button";
    button.onclick = async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy text"; }, 2000);
    };
    return button;
  }

  makeSaveButton(label, name, blob) {
    const button = makeElement("button", label);
    button.type = "button";
    button.onclick = () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    };
    return button;
  }

  end(text, isWrong = false) {
    const isFocused = document.activeElement === this.button("stop");
    this.find(".progress").hidden = true;
    this.button("stop").hidden = true;
    this.button("remove").hidden = false;
    if (isFocused) this.button("remove").focus(); // the focus of a hidden button would be lost
    this.showState(text, { isWrong });
  }

  remove() {
    this.player.close();
    this.article.remove();
    document.getElementById("results").focus();
  }
}
