// The page's own words. Captions are in whatever language they were said.

import { TEXTS } from "./texts.js";

let language = "en";

export function text(key, value = "") {
  return TEXTS[language][key].replace("{}", () => value).trim();
}

// An element whose text is the page's, and follows its language.
export function label(element, key, value = "") {
  element.dataset.text = key;
  element.dataset.value = value;
  element.textContent = text(key, value);
}

export function speak(wanted) {
  const liked = wanted === "system" ? navigator.languages : [wanted];
  language = liked.map((tag) => tag.split("-")[0]).find((tag) => tag in TEXTS) ?? "en";
  document.documentElement.lang = language;
  document.title = text("title");
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = text(element.dataset.text, element.dataset.value);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", text(element.dataset.label));
  }
}
