"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const kept = history.state ?? {};
  const colours = data.slots;
  const few = data.experiments.length <= colours;
  const chosen = Array.from({ length: colours }, (_, slot) => (kept.chosen ?? data.chosen)[slot] ?? null)
    .map((name) => (data.experiments.includes(name) ? name : null));
  const figures = [...document.querySelectorAll(".picture")];
  const drawn = new Map();
  const asked = new Map();

  const element = (name, text = "", options = {}) => Object.assign(document.createElement(name), { textContent: text }, options);

  // Colours come from the style sheet, so that charts and page agree in light, in dark and on paper.
  function look() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null,
      font,
      view: { stroke: null },
      axis: {
        labelColor: of("muted"), titleColor: of("muted"), gridColor: of("grid"), domainColor: of("line"), tickColor: of("line"),
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelPadding: 5, titlePadding: 8,
      },
      axisXQuantitative: { tickCount: { expr: "ceil(width / 70)" }, labelFlush: false }, // room for every label, that of 0 too
      legend: {
        orient: "top", labelColor: of("muted"), titleColor: of("muted"), labelFontSize: 12, titleFontSize: 12,
        titleFontWeight: "normal", gradientLength: 180, gradientThickness: 10, offset: 10, columns: 3, symbolType: "square",
      },
      range: {
        category: Array.from({ length: colours }, (_, slot) => of(`c${slot}`)),
        heatmap: of("ramp").split(" "), ramp: of("ramp").split(" "), diverging: of("diverging").split(" "),
      },
      style: {
        quiet: { color: of("quiet"), strokeWidth: 1.2 },
        guide: { color: of("guide"), fontSize: 11 },
        main: { color: of("c0") },
      },
    };
  }

  function rowsOf(sheet) {
    const columns = Object.entries(data.sheets[sheet]).map(([name, column]) =>
      [name, Array.isArray(column) ? column : column.at.map((place) => column.names[place])]);
    const rows = Array.from({ length: columns[0][1].length }, () => ({}));
    for (const [name, values] of columns) values.forEach((value, i) => { rows[i][name] = value; });
    return rows;
  }

  const viewOf = (figure) => data.pictures[figure.dataset.picture][figure.querySelector("select[id^=choice]")?.value ?? 0];
  const several = data.experiments.length > 1;
  const coloured = (view) => view.spec.params?.some((param) => param.name === "chosen");

  async function draw(figure) {
    const view = viewOf(figure);
    const chart = figure.querySelector(".chart");
    const spec = { ...view.spec };
    if (coloured(view)) spec.params = spec.params.map((param) => (param.name === "chosen" ? { ...param, value: [...chosen] } : param));
    const patch = (compiled) => {
      for (const source of compiled.data) if (source.name in data.sheets) source.values = rowsOf(source.name);
      return compiled;
    };
    chart.setAttribute("aria-label", `${figure.querySelector("h3").textContent}. ${view.words}`);
    figure.querySelector(".words").textContent = view.words;
    legend(figure);
    drawn.get(figure)?.finalize();
    drawn.set(figure, null);
    const turn = (asked.get(figure) ?? 0) + 1;
    asked.set(figure, turn);
    const options = { mode: "vega-lite", actions: false, config: look(), renderer: view.renderer, tooltip: tip, patch, logLevel: 1 };
    const made = await vegaEmbed(chart.firstElementChild, spec, options); // it names its own element, so the chart's name is safe
    if (asked.get(figure) !== turn) return made.finalize(); // it was asked for again meanwhile
    drawn.set(figure, made);
    chart.style.minHeight = "";
    figure.vegaView = made.view.addEventListener("click", (_, item) => {
      if (coloured(view) && item?.datum?.slot === -1) choose(item.datum.experiment);
    });
  }

  function tip(_, event, item, value) {
    const box = document.getElementById("tip");
    box.hidden = value == null || value === "";
    if (box.hidden) return;
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    box.replaceChildren(...lines.map(([name, text]) => {
      const line = element("div");
      line.append(element("span", name), element("strong", String(text)));
      return line;
    }));
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    box.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  }

  // The experiments that have a colour, the same in all charts.
  function choose(name) {
    const slot = chosen.indexOf(name);
    if (slot >= 0) chosen[slot] = null;
    else if (few) chosen[data.chosen.indexOf(name)] = name;
    else chosen[chosen.includes(null) ? chosen.indexOf(null) : colours - 1] = name;
    for (const [figure, made] of drawn) {
      if (coloured(viewOf(figure))) made?.view.signal("chosen", [...chosen]).run();
      legend(figure);
    }
  }

  function swatch(slot) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    const line = document.createElementNS(space, "line");
    const dash = slot < 0 ? [1, 0] : data.dashes[slot];
    const marks = { x1: 0, x2: 26, y1: 3, y2: 3, "stroke-width": 3, "stroke-dasharray": dash.join(" ") };
    for (const [key, value] of Object.entries(marks)) line.setAttribute(key, value);
    line.style.stroke = slot < 0 ? "var(--quiet)" : `var(--c${slot})`;
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    return svg;
  }

  function legend(figure) {
    const box = figure.querySelector(".legend");
    const focused = box.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    const names = several && coloured(viewOf(figure)) ? (few ? data.experiments : chosen.filter((name) => name !== null)) : [];
    const chips = names.map((name) => {
      const chip = element("button", "", { type: "button", title: few ? "Show in colour or grey" : "Show in grey again" });
      chip.append(swatch(chosen.indexOf(name)), element("span", name));
      chip.dataset.name = name;
      chip.setAttribute("aria-pressed", String(chosen.includes(name)));
      chip.addEventListener("click", () => choose(name));
      return chip;
    });
    if (!few && coloured(viewOf(figure))) chips.push(adder());
    box.replaceChildren(...chips);
    if (focused != null) (chips.find((chip) => chip.dataset.name === focused) ?? chips.at(-1))?.focus();
  }

  function adder() {
    const select = element("select");
    select.dataset.name = "";
    select.setAttribute("aria-label", "Highlight another experiment");
    select.append(element("option", "Highlight another…", { value: "" }));
    for (const name of data.experiments) if (!chosen.includes(name)) select.append(element("option", name, { value: name }));
    select.addEventListener("change", () => choose(select.value));
    return select;
  }

  function fillTable(figure) {
    const { head, rows, caption } = viewOf(figure).table;
    const table = element("table");
    if (caption) table.append(element("caption", caption));
    table.createTHead().insertRow().append(...head.map((name) => element("th", name, { scope: "col" })));
    const body = table.createTBody();
    for (const [first, ...rest] of rows) {
      body.insertRow().append(element("th", first, { scope: "row" }), ...rest.map((cell) => element("td", cell)));
    }
    const box = element("div", "", { className: "scroll", tabIndex: 0 });
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `${figure.querySelector("h3").textContent} as a table`);
    box.append(table);
    const details = figure.querySelector(".data");
    details.querySelector(".scroll")?.remove();
    details.append(box);
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = element("button", head.textContent, { type: "button" });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent;
        const number = (row) => { const found = parseFloat(text(row).replaceAll(",", "")); return Number.isNaN(found) ? -Infinity : found; };
        const by = head.classList.contains("number") ? (a, b) => number(a) - number(b) : (a, b) => text(b).localeCompare(text(a));
        const rows = [...table.tBodies[0].rows].sort((a, b) => (down ? by(b, a) : by(a, b)));
        table.tBodies[0].append(...rows);
      });
    });
  }

  const redraw = () => drawn.forEach((_, figure) => draw(figure));
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) if (isIntersecting && !drawn.has(target)) draw(target);
  }, { rootMargin: "400px" });

  for (const figure of figures) {
    const view = viewOf(figure);
    figure.querySelector(".chart").style.minHeight = `${(view.spec.height ?? 300) + 55}px`;
    figure.querySelector("select[id^=choice]")?.addEventListener("change", () => {
      draw(figure);
      if (figure.querySelector(".data").open) fillTable(figure);
    });
    figure.querySelector(".data").addEventListener("toggle", (event) => { if (event.target.open) fillTable(figure); });
    figure.querySelector(".save").addEventListener("click", async () => {
      if (!drawn.get(figure)) await draw(figure);
      const svg = await drawn.get(figure).view.background(getComputedStyle(document.documentElement).getPropertyValue("--card")).toSVG();
      const link = element("a", "", { download: `${figure.querySelector("h3").textContent}.svg` });
      link.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
      link.click();
      URL.revokeObjectURL(link.href);
    });
    legend(figure);
    near.observe(figure);
  }
  document.querySelectorAll("table.sortable").forEach(sortable);
  // What is in view comes first; the rest follows, for whoever captures the whole page. One that soon reloads draws no more.
  if (!data.refresh) (async () => {
    for (const figure of figures) {
      await new Promise((next) => setTimeout(next));
      if (!drawn.has(figure)) await draw(figure);
    }
  })();

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    figures.forEach(draw);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    redraw();
  });

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const reading = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main section").forEach((section) => reading.observe(section));

  if (kept.scroll) scrollTo(0, kept.scroll);
  if (data.refresh) {
    const pause = document.getElementById("pause");
    let paused = kept.paused ?? false;
    const keep = () => history.replaceState({ chosen, scroll: scrollY, paused }, "");
    const show = () => {
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on" : "Pause";
    };
    pause.addEventListener("click", () => {
      paused = !paused;
      show();
      keep(); // a reload that is under way already ends in a page that is paused, too
    });
    show();
    pause.disabled = false; // before, a click would be lost
    setInterval(() => {
      if (paused) return;
      keep();
      location.reload();
    }, data.refresh * 1000);
  }
})();
