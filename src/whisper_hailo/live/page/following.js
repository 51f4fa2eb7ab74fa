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
  #held = false; // by a finger, or by its scroll bar
  #top = 0;
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
    view.addEventListener("touchstart", () => { this.#held = true; }, { passive: true });
    for (const end of ["pointerup", "touchend", "touchcancel"]) {
      window.addEventListener(end, () => { this.#held = false; });
    }
    view.addEventListener("scroll", () => this.#scrolled());
    window.addEventListener("pointermove", ({ buttons }) => { if (!buttons) this.#held = false; });
    button.addEventListener("click", () => this.toNewest());
    new ResizeObserver(() => this.refit()).observe(view);
  }

  // After the text has changed.
  keep() {
    const top = this.#grown();
    if (this.#on && !this.#held) this.#go(top, this.#motion.matches ? "smooth" : "instant");
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
    if (this.#view.scrollTop > 0) this.#set(false);
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#view;
    const down = scrollTop > this.#top;
    if (!down && this.#held && scrollTop < this.#top) this.#leave();
    if (down && !this.#on && scrollHeight - clientHeight - scrollTop < NEAR) this.#set(true);
    this.#top = scrollTop;
  }

  #set(on) {
    this.#on = on;
    this.#button.hidden = on;
  }
}
