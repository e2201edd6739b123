// What the page does beyond showing: sort, find, unfold, decide items, save files, links to a row.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const table = (element) => document.getElementById(element.dataset.for);

  // Files are saved as they would be written by misc: names as they were given.
  const cell = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const save = (file, rows) => {
    const text = rows.map((row) => row.map(cell).join(",") + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  all("button.save").forEach((button) => button.addEventListener("click", () => {
    const { columns, rows } = data.tables[button.dataset.file];
    save(button.dataset.file, [columns, ...rows]);
  }));

  // Tables: heads sort, long ones are folded, the tools above find.
  const rowsOf = (one) => [...one.tBodies[0].rows];
  const unfold = (one, open) => {
    one.classList.toggle("unfolded", open);
    const button = document.querySelector(`.unfold[data-for="${one.id}"]`);
    if (button) button.hidden = open || one.tBodies[0].rows.length <= 15;
  };
  const valueOf = (row, column) => {
    const place = row.cells[column];
    return place.dataset.value === undefined ? place.textContent.trim() : Number(place.dataset.value);
  };
  const compare = (a, b) => (typeof a === "number" && typeof b === "number"
    ? (Number.isNaN(a) - Number.isNaN(b)) || a - b
    : String(a).localeCompare(String(b), undefined, { numeric: true }));
  all("table.data").forEach((one) => {
    unfold(one, false);
    all("button.sort", one).forEach((button) => button.addEventListener("click", () => {
      const header = button.closest("th");
      const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      all("th[aria-sort]", one.tHead).forEach((other) => other.setAttribute("aria-sort", "none"));
      header.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const keyed = rowsOf(one).map((row) => [valueOf(row, header.cellIndex), row]);
      keyed.sort((a, b) => sign * compare(a[0], b[0]));
      one.tBodies[0].append(...keyed.map(([, row]) => row));
    }));
  });
  all(".unfold").forEach((button) => button.addEventListener("click", () => unfold(table(button), true)));
  const find = (tools) => {
    const one = table(tools);
    const wanted = tools.querySelector("input").value.trim().toLowerCase();
    const tag = tools.querySelector("select")?.value ?? "";
    const rows = rowsOf(one);
    rows.forEach((row) => {
      row.hidden = !((!wanted || row.textContent.toLowerCase().includes(wanted)) && (!tag || row.dataset.tags === tag));
    });
    const left = rows.filter((row) => !row.hidden).length;
    unfold(one, Boolean(wanted || tag));
    one.hidden = !left;
    document.querySelector(`.nothing[data-for="${one.id}"]`).hidden = left > 0;
    tools.querySelector(".status").textContent = wanted || tag ? `${left} of ${rows.length}` : "";
  };
  const clear = (tools) => {
    tools.querySelector("input").value = "";
    if (tools.querySelector("select")) tools.querySelector("select").value = "";
    find(tools);
  };
  all(".tools").forEach((tools) => {
    tools.hidden = false;
    tools.addEventListener("input", () => find(tools));
    document.querySelector(`.nothing[data-for="${tools.dataset.for}"] .clear`).addEventListener("click", () => {
      clear(tools);
      tools.querySelector("input").focus();
    });
  });

  // Items that a person decides: a class per card, saved as gold.csv.
  const decided = new Map();
  let saved = true;
  const cards = all(".card");
  const decide = (card, code) => {
    const at = Number(card.dataset.at);
    if (decided.get(at) === code) decided.delete(at); else decided.set(at, code);
    saved = false;
    const now = decided.get(at);
    all("button", card).forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.class) === now)));
    const menu = card.querySelector("select");
    if (menu) menu.value = now === undefined || card.querySelector(`[data-class="${now}"]`) ? "" : String(now);
    card.classList.toggle("done", now !== undefined);
    document.querySelector(".tally").textContent = decided.size ? `${decided.size} of ${cards.length} decided` : "None decided yet";
    document.getElementById("save-gold").disabled = !decided.size;
  };
  cards.forEach((card, order) => {
    all("button, select", card).forEach((control) => { control.hidden = false; });
    all("button", card).forEach((button) => button.addEventListener("click", () => decide(card, Number(button.dataset.class))));
    const menu = card.querySelector("select");
    menu?.addEventListener("focus", () => {
      if (menu.options.length > 1) return;
      data.classes.forEach((name, code) => {
        if (!card.querySelector(`[data-class="${code}"]`)) menu.add(new Option(name, code));
      });
    });
    menu?.addEventListener("change", () => {
      const at = Number(card.dataset.at);
      decide(card, menu.value === "" ? decided.get(at) : Number(menu.value));
    });
    card.addEventListener("keydown", (event) => {
      const button = all("button", card)[Number(event.key) - 1];
      if (!/^[1-9]$/.test(event.key) || !button || event.ctrlKey || event.metaKey || event.altKey || event.target === menu) return;
      event.preventDefault();
      button.click();
      (cards[order + 1] ?? card).querySelector("button").focus();
    });
  });
  if (cards.length) {
    document.querySelector(".decided").hidden = false;
    document.getElementById("save-gold").addEventListener("click", () => {
      const rows = [...decided].sort((a, b) => a[0] - b[0]).map(([at, code]) => [data.items[at], data.classes[code]]);
      save("gold.csv", [["item", "label"], ...data.known, ...rows]);
      saved = true;
    });
    addEventListener("beforeunload", (event) => { if (!saved && decided.size) event.preventDefault(); });
  }

  // A link to a row shows it, whatever is folded or not found.
  const goTo = () => {
    all(".lit").forEach((one) => one.classList.remove("lit"));
    const raw = location.hash.slice(1);
    let place = raw && document.getElementById(raw);
    if (!place && raw) { try { place = document.getElementById(decodeURIComponent(raw)); } catch { place = null; } }
    if (!place) return;
    const around = place.closest("details");
    if (around) around.open = true;
    if (place.tagName !== "TR" && !place.matches(".card")) return;
    const one = place.closest("table");
    if (one) {
      const tools = document.querySelector(`.tools[data-for="${one.id}"]`);
      if (tools) clear(tools);
      unfold(one, true);
    }
    place.classList.add("lit");
    place.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", goTo);
  goTo();

  // Light or dark: the system's choice until the button is pressed.
  const theme = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-pressed", String(isDark())); };
  theme.hidden = false;
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();
})();
