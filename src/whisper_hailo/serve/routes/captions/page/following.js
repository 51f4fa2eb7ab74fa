// Keeps the newest line in sight, unless the reader has gone back.
//
// Only the reader ends it: with a wheel, a finger, a key or the scroll bar. Scrolling of the text is
// no sign of that, since smooth scrolling passes through everything between.

const UP_KEYS = new Set(["ArrowUp", "PageUp", "Home"]);
const NEAR_PX = 4;

export class Following {
  #view;
  #text;
  #button;
  #motion = matchMedia("(prefers-reduced-motion: no-preference)");
  #isFollowing = true;
  #isHeld = false; // by its scroll bar, or while something is marked
  #top = 0;
  #fingerY = 0;
  #wentUp = false; // since it stopped following
  #tallest = 0;

  constructor(view, text, button) {
    this.#view = view;
    this.#text = text;
    this.#button = button;
    view.addEventListener("wheel", ({ deltaY }) => { if (deltaY < 0) this.#stopFollowing(); }, { passive: true });
    view.addEventListener("keydown", ({ key, shiftKey }) => {
      if (UP_KEYS.has(key) || (key === " " && shiftKey)) this.#stopFollowing();
    });
    view.addEventListener("pointerdown", () => { this.#isHeld = true; });
    for (const end of ["pointerup", "pointercancel"]) {
      window.addEventListener(end, () => { this.#isHeld = false; });
    }
    window.addEventListener("pointermove", ({ buttons }) => { if (!buttons) this.#isHeld = false; });
    view.addEventListener("touchstart", ({ touches: [finger] }) => { this.#fingerY = finger.clientY; }, { passive: true });
    view.addEventListener("touchmove", ({ touches: [finger] }) => {
      if (finger.clientY > this.#fingerY) this.#stopFollowing();
    }, { passive: true });
    view.addEventListener("scroll", () => this.#handleScroll());
    view.addEventListener("scrollend", () => this.#alignToLine());
    button.addEventListener("click", () => this.toNewest());
    new ResizeObserver(() => this.refit()).observe(view);
  }

  // After the text has changed: by a little, or by much of before, which nobody watches go by.
  update(isLarge) {
    const top = this.#measure();
    const smooth = this.#motion.matches && !isLarge;
    if (this.#isFollowing && !this.#isHeld) this.#scrollTo(top, smooth ? "smooth" : "instant");
  }

  toNewest() {
    this.#setFollowing(true);
    this.#scrollTo(this.#measure(), "instant");
    this.#view.focus({ preventScroll: true });
  }

  // A line that comes and goes while words are unsettled stays, so that nothing jumps.
  #measure() {
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
    const top = this.#measure();
    if (this.#isFollowing) this.#scrollTo(top, "instant");
  }

  #scrollTo(top, behavior) {
    if (Math.abs(this.#view.scrollTop - top) > 0.5) this.#view.scrollTo({ top, behavior });
  }

  #stopFollowing() {
    if (this.#view.scrollTop === 0) return;
    this.#wentUp = false;
    this.#setFollowing(false);
  }

  #handleScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.#view;
    const isUp = scrollTop < this.#top;
    if (isUp && this.#isHeld) this.#stopFollowing();
    if (isUp) this.#wentUp = true;
    else if (this.#wentUp && !this.#isFollowing && scrollHeight - clientHeight - scrollTop < NEAR_PX) this.#setFollowing(true);
    this.#top = scrollTop;
  }

  // Whole lines, too, where a reader has come to.
  #alignToLine() {
    if (this.#isFollowing || this.#isHeld) return;
    const line = parseFloat(getComputedStyle(this.#view).lineHeight);
    this.#scrollTo(line * Math.round(this.#view.scrollTop / line), "instant");
  }

  #setFollowing(on) {
    this.#isFollowing = on;
    this.#button.hidden = on;
  }
}
