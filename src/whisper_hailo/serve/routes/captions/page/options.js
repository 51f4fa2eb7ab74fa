// The options, as a dialog of forms whose names are those of the settings.

import { tell } from "./status.js";
import { canWake } from "./screen.js";
import { set, setting, whenSet } from "./settings.js";
import { copy, save } from "./share.js";

const dialog = document.getElementById("options");

export const openOptions = () => dialog.showModal();

export function prepareOptions(records) {
  const fields = dialog.querySelectorAll("[name]");
  for (const field of fields) {
    field.addEventListener("change", () => {
      set({ [field.name]: field.type === "checkbox" ? field.checked : field.value });
    });
  }
  whenSet(() => {
    for (const field of fields) {
      if (field.type === "checkbox") field.checked = setting(field.name);
      else field.value = setting(field.name);
    }
  });
  dialog.querySelector("[name=awake]").disabled = !canWake;
  dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
  document.getElementById("close").onclick = () => dialog.close();
  document.getElementById("copy").onclick = async () => {
    if (await copy(records.list, dialog)) tell("copied");
    dialog.close();
  };
  for (const button of dialog.querySelectorAll("[data-save]")) {
    button.onclick = () => save(records.list, button.dataset.save);
  }
}
