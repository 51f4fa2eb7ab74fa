// The words of the page itself; captions are in the language that was spoken.

import { TEXTS } from "./texts.js";

let language = "en";

export function text(key, value = "") {
  return TEXTS[language][key].replace("{}", () => value).trim();
}

// Gives an element a text of the page, which follows the page's language.
export function label(element, key, value = "") {
  element.dataset.text = key;
  element.dataset.value = value;
  element.textContent = text(key, value);
}

export function setLanguage(setting) {
  const tags = setting === "system" ? navigator.languages : [setting];
  language = tags.map((tag) => tag.split("-")[0]).find((tag) => tag in TEXTS) ?? "en";
  document.documentElement.lang = language;
  document.title = text("title");
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = text(element.dataset.text, element.dataset.value);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", text(element.dataset.label));
  }
}
