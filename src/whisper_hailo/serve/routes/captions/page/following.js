// Keeps the newest line in sight, unless the reader has gone back.
//
// Only the reader's own hand ends it: a wheel, a finger, a key, the scroll bar. That the text
// scrolls is no sign of that, since smooth scrolling passes through everything between.

const UP = new Set(["ArrowUp", "PageUp", "Home"]);
const NEAR = 4; // pixels

export class Following {
  #view;
  #text;
  #button;
  #motion = matchMedia("(prefers-reduced-motion: no-preference)");
  #on = true;
  #held = false; // by its scroll bar, or while something is marked
  #top = 0;
  #finger = 0;
  #went = false; // up, since it was left
  #tallest = 0;

  constructor(view, text, button) {
    this.#view = view;
    this.#text = text;
    this.#button = button;
    view.addEventListener("wheel", ({ deltaY }) => { if (deltaY < 0) this.#leave(); }, { passive: true });
    view.addEventListener("keydown", ({ key, shiftKey }) => {
      if (UP.has(key) || (key === " " && shiftKey)) this.#leave();
    });
    view.addEventListener("pointerdown", () => { this.#held = true; });
    for (const end of ["pointerup", "pointercancel"]) {
      window.addEventListener(end, () => { this.#held = false; });
    }
    window.addEventListener("pointermove", ({ buttons }) => { if (!buttons) this.#held = false; });
    view.addEventListener("touchstart", ({ touches: [finger] }) => { this.#finger = finger.clientY; }, { passive: true });
    view.addEventListener("touchmove", ({ touches: [finger] }) => {
      if (finger.clientY > this.#finger) this.#leave();
    }, { passive: true });
    view.addEventListener("scroll", () => this.#scrolled());
    view.addEventListener("scrollend", () => this.#rest());
    button.addEventListener("click", () => this.toNewest());
    new ResizeObserver(() => this.refit()).observe(view);
  }

  // After the text has changed: by a little, or by much of before, which nobody watches go by.
  keep(much) {
    const top = this.#grown();
    const smooth = this.#motion.matches && !much;
    if (this.#on && !this.#held) this.#go(top, smooth ? "smooth" : "instant");
  }

  toNewest() {
    this.#set(true);
    this.#go(this.#grown(), "instant");
    this.#view.focus({ preventScroll: true });
  }

  // A line that comes and goes while words are unsettled stays, so that nothing jumps.
  #grown() {
    if (this.#text.offsetHeight > this.#tallest) {
      this.#tallest = this.#text.offsetHeight;
      this.#text.style.minHeight = `${this.#tallest}px`;
    }
    return this.#view.scrollHeight - this.#view.clientHeight;
  }

  // Lines break elsewhere: another size of the page, or of its letters, or text was taken away.
  refit() {
    this.#tallest = 0;
    this.#text.style.minHeight = "";
    const top = this.#grown();
    if (this.#on) this.#go(top, "instant");
  }

  #go(top, behavior) {
    if (Math.abs(this.#view.scrollTop - top) > 0.5) this.#view.scrollTo({ top, behavior });
  }

  #leave() {
    if (this.#view.scrollTop === 0) return;
    this.#went = false;
    this.#set(false);
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#view;
    const isUp = scrollTop < this.#top;
    if (isUp && this.#held) this.#leave();
    if (isUp) this.#went = true;
    else if (this.#went && !this.#on && scrollHeight - clientHeight - scrollTop < NEAR) this.#set(true);
    this.#top = scrollTop;
  }

  // Whole lines, too, where a reader has come to.
  #rest() {
    if (this.#on || this.#held) return;
    const line = parseFloat(getComputedStyle(this.#view).lineHeight);
    this.#go(line * Math.round(this.#view.scrollTop / line), "instant");
  }

  #set(on) {
    this.#on = on;
    this.#button.hidden = on;
  }
}
