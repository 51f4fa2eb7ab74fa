// The dialog of options; its fields have the names of the settings.

import { showMessage } from "./status.js";
import { canKeepAwake } from "./screen.js";
import { set, setting, onChange } from "./settings.js";
import { copy, save } from "./share.js";
import { TEXTS } from "./texts.js";

const dialog = document.getElementById("options");

export const openOptions = () => dialog.showModal();

function addLanguages(select) {
  for (const [code, { name }] of Object.entries(TEXTS)) {
    const option = new Option(name, code);
    option.lang = code;
    select.append(option);
  }
}

export function prepareOptions(records) {
  addLanguages(dialog.querySelector("[name=language]"));
  const fields = dialog.querySelectorAll("[name]");
  for (const field of fields) {
    field.addEventListener("change", () => {
      set({ [field.name]: field.type === "checkbox" ? field.checked : field.value });
    });
  }
  onChange(() => {
    for (const field of fields) {
      if (field.type === "checkbox") field.checked = setting(field.name);
      else field.value = setting(field.name);
    }
  });
  dialog.querySelector("[name=awake]").disabled = !canKeepAwake;
  dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
  document.getElementById("close").onclick = () => dialog.close();
  document.getElementById("copy").onclick = async () => {
    if (await copy(records.list, dialog)) showMessage("copied");
    dialog.close();
  };
  for (const button of dialog.querySelectorAll("[data-save]")) {
    button.onclick = () => save(records.list, button.dataset.save);
  }
}
