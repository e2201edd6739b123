// What the page does beyond showing: charts, sorting, filtering, copying, links to a row.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const colours = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => `var(--c${n})`);
  const perCent = (value) => `${Math.round(100 * value)} %`;
  const short = (text) => (text.length > 18 ? `${text.slice(0, 17)}…` : text);

  const map = (rows, width, color) => Plot.plot({
    width, height: Math.min(width, 340), color,
    x: { axis: null, inset: 10 }, y: { axis: null, inset: 10 },
    marks: [
      Plot.frame({ stroke: "var(--line)" }),
      Plot.dot(rows, { x: "x", y: "y", fill: "shade", r: 3.5, fillOpacity: 0.75, title: (row) => row.name }),
    ],
  });

  // Charts. Each gets its rows and the width it may have, and returns what Plot made.
  const draw = {
    confidence: (rows, width) => Plot.plot({
      width, height: 250, marginLeft: 50, marginBottom: 42,
      x: { label: "confidence", domain: [0, 1], tickFormat: perCent, ticks: width < 420 ? 5 : 10 },
      y: { label: "items", grid: true, tickFormat: "~s" },
      marks: [
        Plot.rectY(rows, { x1: "from", x2: "to", y: "items", fill: "var(--hit)", insetLeft: 1 }),
        Plot.ruleY([0]),
      ],
    }),
    reliability: (rows, width) => Plot.plot({
      width, height: 250, marginLeft: 50, marginBottom: 42,
      x: { label: "mean confidence", domain: [0, 1], tickFormat: perCent, ticks: width < 420 ? 5 : 10 },
      y: { label: "right", domain: [0, 1], grid: true, tickFormat: perCent, ticks: 5 },
      marks: [
        Plot.line([[0, 0], [1, 1]], { stroke: "currentColor", strokeOpacity: 0.5, strokeDasharray: "4 4" }),
        Plot.ruleX(rows, { x: "mean_confidence", y1: "low", y2: "high", stroke: "var(--c1)" }),
        Plot.line(rows, { x: "mean_confidence", y: "accuracy", stroke: "var(--c1)", strokeWidth: 2 }),
        Plot.dot(rows, { x: "mean_confidence", y: "accuracy", r: 4, fill: "var(--c1)" }),
      ],
    }),
    classes: (rows, width) => {
      const names = [...new Set(rows.map((row) => row.class))];
      const kinds = [...new Set(rows.map((row) => row.of))];
      return Plot.plot({
        width, height: 72 + names.length * (10 + 13 * kinds.length), marginBottom: 42,
        marginLeft: Math.min(width * 0.35, 20 + 7 * Math.max(...names.map((name) => short(name).length))), marginRight: 45,
        x: { label: "share", tickFormat: perCent, grid: true, ticks: 5 },
        y: { axis: null, domain: kinds }, fy: { label: null, domain: names, tickFormat: short, padding: 0.2 },
        color: { domain: kinds, range: colours, legend: true },
        marks: [
          Plot.axisFy({ anchor: "left", label: null, tickFormat: short, textAnchor: "end", dx: -4, lineAnchor: "middle", frameAnchor: "left" }),
          Plot.barX(rows, { x: "share", y: "of", fy: "class", fill: "of" }),
          Plot.text(rows, { x: "share", y: "of", fy: "class", text: (row) => perCent(row.share), textAnchor: "start", dx: 4, fill: "currentColor" }),
          Plot.ruleX([0]),
        ],
      });
    },
    progress: (rows, width) => {
      const points = rows.map((row) => ({ ...row, at: new Date(row.from) }));
      const most = Math.max(...points.map((row) => row.answers));
      return Plot.plot({
        width, height: 270, marginLeft: 55, marginRight: 50, marginBottom: 42,
        x: { label: null, type: "utc", ticks: width < 420 ? 3 : 8 },
        y: { label: "answers", grid: true, tickFormat: "~s", domain: [0, most || 1] },
        marks: [
          Plot.axisY({ anchor: "left", label: "answers", tickFormat: "~s", ticks: 5 }),
          Plot.axisY(d3.ticks(0, 1, 5).map((share) => share * most), { anchor: "right", label: "agreement", tickFormat: (value) => perCent(value / (most || 1)), color: "var(--c1)" }),
          Plot.areaY(points, { x: "at", y: "answers", fill: "var(--hit)", fillOpacity: 0.25, curve: "step-after" }),
          Plot.lineY(points, { x: "at", y: "answers", stroke: "var(--hit)", curve: "step-after" }),
          Plot.line(points.filter((row) => row.agreement !== null), { x: "at", y: (row) => row.agreement * most, stroke: "var(--c1)", strokeWidth: 2, marker: "dot" }),
          Plot.ruleY([0]),
        ],
      });
    },
    worker_map: (rows, width) => map(rows, width, { type: "linear", scheme: "viridis", label: "accuracy", tickFormat: perCent, legend: true }),
    item_map: (rows, width) => {
      const names = [...new Set(rows.map((row) => row.shade))].sort();
      return map(rows, width, { type: "ordinal", domain: names, range: names.map((_, at) => colours[at % colours.length]), legend: names.length <= 8 });
    },
    convergence: (rows, width) => {
      const names = [...new Set(rows.map((row) => row.method))];
      return Plot.plot({
        width, height: 290, marginLeft: 55, marginBottom: 42,
        x: { label: "iteration", tickFormat: "~s" },
        y: { type: "log", label: "change", grid: true, ticks: 5, tickFormat: (value) => value.toPrecision(1).replace("e", "·10^").replace("^-", "^−") },
        color: { domain: names, range: names.map((_, at) => colours[at % colours.length]), legend: true },
        marks: [
          Plot.line(rows, { x: "iteration", y: "change", stroke: "method", strokeWidth: 2 }),
          Plot.dot(rows, Plot.selectLast({ x: "iteration", y: "change", z: "method", fill: "method", r: 3 })),
        ],
      });
    },
  };

  const widths = new WeakMap();
  const drawOne = (place) => {
    const width = Math.floor(place.clientWidth);
    const rows = data.charts[place.dataset.chart];
    if (!rows || !width || widths.get(place) === width) return;
    widths.set(place, width);
    const made = draw[place.dataset.chart](rows, width);
    made.setAttribute("aria-hidden", "true"); // the place has a label, and a table has the numbers
    place.replaceChildren(made);
  };
  const watcher = new ResizeObserver((entries) => entries.forEach((entry) => drawOne(entry.target)));
  all(".chart").forEach((place) => { drawOne(place); watcher.observe(place); });

  // Tables: the header's buttons sort, the tools above filter and copy.
  const bodyRows = (table) => all("tbody > tr:not(.inner)", table);
  const closeInner = (table) => {
    all("tr.inner", table).forEach((row) => row.remove());
    all("button.matrix", table).forEach((button) => button.setAttribute("aria-expanded", "false"));
  };
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return (Number.isNaN(a) - Number.isNaN(b)) || a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sortBy = (table, header) => {
    const direction = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    all("th[aria-sort]", table.tHead).forEach((other) => other.setAttribute("aria-sort", "none"));
    header.setAttribute("aria-sort", direction);
    closeInner(table);
    const sign = direction === "ascending" ? 1 : -1;
    const keyed = bodyRows(table).map((row) => [valueOf(row, header.cellIndex), row]);
    keyed.sort((a, b) => sign * compare(a[0], b[0]));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  };
  all("table.data").forEach((table) => {
    all("th button.sort", table).forEach((button) => {
      button.addEventListener("click", () => sortBy(table, button.closest("th")));
    });
  });

  const filter = (tools) => {
    const table = document.getElementById(tools.dataset.for);
    const wanted = tools.querySelector("input").value.trim().toLowerCase();
    const tag = tools.querySelector("select")?.value ?? "";
    closeInner(table);
    const rows = bodyRows(table);
    let left = 0;
    rows.forEach((row) => {
      const fits = (!wanted || row.textContent.toLowerCase().includes(wanted))
        && (!tag || (row.dataset.tags ?? "").split("|").includes(tag));
      row.hidden = !fits;
      left += fits;
    });
    tools.querySelector(".status").textContent = left === rows.length ? `${left} rows` : `${left} of ${rows.length} rows`;
  };

  // A cell that a spreadsheet would take for a formula gets an apostrophe, as spreadsheets themselves do.
  const csvCell = (cell) => {
    let text = cell.dataset.value ?? (cell.querySelector("summary .counts") ?? cell).textContent.replace(/\s+/g, " ").trim();
    if (cell.dataset.value === undefined && /^[=+\-@]/.test(text)) text = `'${text}`;
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (table) => {
    const shown = [table.tHead.rows[0], ...bodyRows(table).filter((row) => !row.hidden)];
    const keep = (row) => [...row.cells].filter((_, at) => !table.tBodies[0].rows[0]?.cells[at]?.querySelector("button.matrix"));
    return shown.map((row) => keep(row).map(csvCell).join(",")).join("\n") + "\n";
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
  all(".tools").forEach((tools) => {
    tools.hidden = false;
    tools.querySelector("input").addEventListener("input", () => filter(tools));
    tools.querySelector("select")?.addEventListener("change", () => filter(tools));
    tools.querySelector(".copy").addEventListener("click", async () => {
      const done = await copy(csv(document.getElementById(tools.dataset.for)));
      tools.querySelector(".status").textContent = done ? "Copied" : "This browser does not let pages copy";
    });
    filter(tools);
  });

  // A worker's confusion matrix, made when it is asked for.
  const cell = (kind, text, scope) => {
    const made = document.createElement(kind);
    if (scope) made.scope = scope;
    made.textContent = text;
    return made;
  };
  const matrix = (values) => {
    const table = document.createElement("table");
    table.className = "matrix";
    const corner = cell("td", "true ↓ said →");
    corner.className = "corner";
    table.createTHead().insertRow().append(corner, ...data.classes.map((name) => cell("th", name, "col")));
    const body = table.createTBody();
    data.classes.forEach((name, at) => {
      const shares = values.slice(at * data.classes.length, (at + 1) * data.classes.length);
      const cells = shares.map((share, said) => {
        const made = cell("td", String(Math.round(share / 10)));
        made.className = said === at ? "hit" : "miss";
        made.style.setProperty("--s", `${share / 10}%`);
        return made;
      });
      body.insertRow().append(cell("th", name, "row"), ...cells);
    });
    return table;
  };
  all("button.matrix").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => {
      const row = button.closest("tr");
      const open = button.getAttribute("aria-expanded") === "true";
      closeInner(row.closest("table"));
      if (open) return;
      button.setAttribute("aria-expanded", "true");
      const inner = document.createElement("tr");
      inner.className = "inner";
      const place = inner.insertCell();
      place.colSpan = row.cells.length;
      const note = cell("p", "What this worker says to an item of each class, in per cent of the row.");
      note.className = "note";
      place.append(matrix(data.confusions[Number(button.dataset.row)]), note);
      row.after(inner);
    });
  });

  // A link to a row shows it, whatever the filter.
  const goTo = () => {
    all("tr.lit").forEach((row) => row.classList.remove("lit"));
    const raw = location.hash.slice(1);
    let row = raw && document.getElementById(raw);
    if (!row && raw) { try { row = document.getElementById(decodeURIComponent(raw)); } catch { row = null; } }
    if (!row || row.tagName !== "TR") return;
    const tools = document.querySelector(`.tools[data-for="${row.closest("table").id}"]`);
    if (row.hidden && tools) {
      tools.querySelector("input").value = "";
      if (tools.querySelector("select")) tools.querySelector("select").value = "";
      filter(tools);
    }
    row.classList.add("lit");
    const details = row.querySelector("details");
    if (details) details.open = true;
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", goTo);
  goTo();

  // Links to rows that a page of extremes does not show lead nowhere: they become plain text.
  all('td a[href^="#worker-"]').forEach((link) => {
    if (!document.getElementById(link.getAttribute("href").slice(1))) link.replaceWith(...link.childNodes);
  });

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
