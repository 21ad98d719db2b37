"use strict";
// The page: what is chosen, the controls that choose it, and the figures that follow.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const BANDS = {
    range: "lowest to highest seed", sd: "± one standard deviation", seeds: "every seed", none: "none",
  };
  const chosen = {
    x: data.startX, columns: [...data.columns], band: "range", log: false, zoom: null,
    hidden: new Set(),
  };
  const axis = (list, key) => list.find((one) => one.key === key);
  // The end of every run against a number that was varied, where there is one, is a panel too: it
  // has an axis of its own.
  const panels = data.overview ? [data.overview, ...data.panels] : data.panels;
  const xOf = (panel) => (panel.axis ? panel.axis.key : chosen.x);
  const zoomOf = (panel) => (panel.axis ? null : chosen.zoom);
  const many = data.panels.some((panel) => panel.series.some((s) => s.seeds > 1));
  let figures = [], outside = [];

  // ------------------------------------------------------------------------------ what is drawn

  const shown = (panel) => panel.series.filter((s) => !chosen.hidden.has(s.entry));
  const inside = (x, panel) => {
    const zoom = zoomOf(panel);
    return x !== null && (!zoom || (x >= zoom[0] && x <= zoom[1]));
  };
  const isLog = (y) => chosen.log && axis(data.y, y).log;

  function limits(series, y) {
    const values = series.mean.y[y];
    if (chosen.band === "range" || chosen.band === "seeds") return [values.low, values.high];
    if (chosen.band !== "sd") return [values.mean, values.mean];
    const moved = (sign) =>
      values.mean.map((m, i) => (values.sd[i] === null ? m : m + sign * values.sd[i]));
    return [moved(-1), moved(1)];
  }

  // The scale: one for all panels of the same data. Diverged runs set it only where nothing else is.
  // Values beyond a panel's limits do not stretch the axis: they are marked at its edge.
  function domains(panels, y) {
    let xs = [], ys = [];
    const key = xOf(panels[0]), within = (x) => inside(x, panels[0]);
    const series = panels.flatMap(shown);
    for (const s of series) {
      const [low, high] = limits(s, y);
      const lists = [low, high, s.mean.y[y].mean];
      if (chosen.band === "seeds") {
        s.runs.filter((r) => r.status !== "diverged").forEach((r) => {
          r.x[key].forEach((x, i) => { if (within(x)) { ys.push(r.y[y][i]); xs.push(x); } });
        });
      }
      s.mean.x[key].forEach((x, i) => {
        if (!within(x) || lists[2][i] === null) return;
        xs.push(x);
        ys.push(...lists.map((list) => list[i]));
      });
    }
    if (!xs.length) {
      for (const run of series.flatMap((s) => s.runs)) {
        xs.push(...run.x[key].filter((v) => v !== null));
        ys.push(...run.y[y].filter((v) => v !== null));
      }
    }
    const log = isLog(y), bounds = panels[0].limits[y];
    if (bounds) {
      ys = ys.map((v) => (v === null ? v : Math.min(Math.max(v, bounds[0]), bounds[1])));
    }
    const x = zoomOf(panels[0]) || Chart.domain(xs, false, 0.02);
    return { x, y: Chart.domain(ys, log, 0.05) };
  }

  // What of a series lies beyond the frame: its highest and its lowest value there.
  function beyond(panel, s, y, { x: xDomain, y: yDomain }) {
    const [low, high] = limits(s, y);
    const found = [];
    const seek = (list, outside, worse, above) => {
      let worst = null;
      list.forEach((v, i) => {
        const x = s.mean.x[xOf(panel)][i];
        if (v === null || x === null || x < xDomain[0] || x > xDomain[1] || !outside(v)) return;
        if (worst === null || worse(v, worst.value)) worst = { x, value: v, at: s.mean.epochs[i] };
      });
      if (worst) found.push({ ...worst, above });
    };
    seek(high, (v) => v > yDomain[1], (a, b) => a > b, true);
    if (!isLog(y)) seek(low, (v) => v < yDomain[0], (a, b) => a < b, false);
    return found;
  }

  // Names at the ends where there is room for them; else the numbers of the legend.
  function naming(panel, width) {
    const names = shown(panel).map((s) => data.entries[s.entry].label);
    const widest = Math.max(0, ...names.map(Chart.textWidth));
    const numbered = widest > 0.3 * width;
    const text = (entry) => (numbered ? String(entry + 1) : data.entries[entry].label);
    return { text, numbered, right: (numbered ? 18 : widest) + 14 };
  }

  function draw({ panel, column, figure, holder }) {
    const y = chosen.columns[column];
    const key = xOf(panel), own = panel.axis;
    const domain = domains(data.sameScale && !own ? data.panels : [panel], y);
    const { x: xDomain, y: yDomain } = domain;
    const named = naming(panel, holder.clientWidth);
    const drawn = figure.begin({
      width: holder.clientWidth, x: xDomain, y: yDomain, log: isLog(y), right: named.right,
      whole: key === "epoch", ticks: own && own.ticks,
      xLabel: own ? own.label : axis(data.x, key).label, yLabel: axis(data.y, y).label,
    });
    if (!drawn) return;
    if (named.numbered) document.body.classList.add("numbered");
    const ends = [];
    for (const s of shown(panel)) {
      const dash = data.entries[s.entry].dash;
      const xs = s.mean.x[key], { mean, n } = s.mean.y[y];
      const points = xs.map((x, i) => [x, mean[i]]);
      if (s.seeds > 1 && (chosen.band === "range" || chosen.band === "sd")) {
        const [low, high] = limits(s, y);
        figure.band(xs.map((x, i) => [x, low[i], high[i]]), s.entry);
      }
      for (const run of s.runs) {
        const line = run.x[key].map((x, i) => [x, run.y[y][i]]);
        if (run.status === "diverged") {
          figure.line(line, s.entry, "single");
          const seen = line.filter(([a, b]) => a !== null && b !== null);
          if (seen.length && inside(seen[seen.length - 1][0], panel)) {
            figure.cross(seen[seen.length - 1], s.entry,
              `${data.entries[s.entry].label}, seed ${run.seed}: diverged`);
          }
        } else if (chosen.band === "seeds" && s.seeds > 1) {
          figure.line(line, s.entry, "single");
        }
      }
      let whole = n.findIndex((count) => count < s.seeds);
      if (whole < 0) whole = points.length;
      figure.line(points.slice(0, whole), s.entry, "line", dash);
      if (whole < points.length) {
        figure.line(points.slice(Math.max(0, whole - 1)), s.entry, "line few", dash);
      }
      if (own) figure.dots(points, s.entry, n.map((count) => count < s.seeds));
      for (const one of beyond(panel, s, y, domain)) {
        const said = `${data.entries[s.entry].label}: ${one.above ? "up" : "down"} to `
          + `${Chart.short(one.value)} at ${own ? own.label : "epoch"} ${one.at}`;
        figure.beyond(one.x, one.above, s.entry, said);
        outside.push(said + (panel.title ? ` (${panel.title})` : ""));
      }
      const there = points.filter(([x, v]) => inside(x, panel) && v !== null);
      if (there.length) {
        const [x, v] = there[there.length - 1];
        const kept = Math.min(Math.max(v, yDomain[0]), yDomain[1]);
        ends.push({ x, y: kept, text: named.text(s.entry), entry: s.entry });
      }
    }
    figure.names(ends);
  }

  // What has no place on the axis chosen, such as methods that were not timed alone.
  function absent() {
    const names = data.panels.flatMap((panel) => shown(panel)
      .filter((s) => !s.runs.some((run) => run.x[chosen.x].some((x) => x !== null)))
      .map((s) => data.entries[s.entry].label + (panel.title ? ` (${panel.title})` : "")));
    return names.length ? `Not known on this axis: ${names.join("; ")}.` : "";
  }

  function drawAll() {
    outside = [];
    document.body.classList.remove("numbered");
    figures.forEach((item) => { draw(item); item.figure.end(); });
    const marked = outside.slice(0, 8).join("; ") + (outside.length > 8 ? "; …" : "");
    byId("beyond-note").textContent = marked && `Triangles mark what lies beyond an axis: ${marked}.`;
    const notes = {
      range: "Bands reach from the lowest to the highest seed.",
      sd: "Bands are the mean ± one sample standard deviation over the seeds.",
      seeds: "Thin lines are single seeds.", none: "",
    };
    const band = many ? notes[chosen.band] : "One seed each: there is no band.";
    byId("band-note").textContent = [band, absent()].filter(Boolean).join(" ");
    byId("show-all").hidden = chosen.hidden.size === 0;
    byId("whole").hidden = chosen.zoom === null;
    byId("log").disabled = !chosen.columns.some((y) => axis(data.y, y).log);
  }

  // ---------------------------------------------------------------------------------- controls

  function choice(id, label, options, value, change) {
    const holder = document.createElement("label");
    holder.append(label);
    const select = document.createElement("select");
    select.id = id;
    for (const [key, text] of options) select.add(new Option(text, key, key === value, key === value));
    select.addEventListener("change", () => { change(select.value); drawAll(); });
    holder.append(select);
    byId("controls").append(holder);
  }

  function controls() {
    const names = (list) => list.map((one) => [one.key, one.label]);
    choice("x", "x", names(data.x), chosen.x, (key) => { chosen.x = key; chosen.zoom = null; });
    const sides = data.columns.length === 2 ? ["left", "right"] : data.columns.map((_, i) => i + 1);
    data.columns.forEach((y, column) => {
      const label = data.columns.length === 1 ? "y" : `y, ${sides[column]}`;
      choice(`y${column}`, label, names(data.y), y, (key) => { chosen.columns[column] = key; });
    });
    if (many) {
      choice("band", "spread", Object.entries(BANDS), chosen.band, (key) => { chosen.band = key; });
    }
    const label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", id: "log" });
    box.addEventListener("change", () => { chosen.log = box.checked; drawAll(); });
    label.append(box, "log loss");
    const whole = Object.assign(document.createElement("button"), {
      type: "button", className: "plain", id: "whole", textContent: "whole axis",
    });
    whole.addEventListener("click", () => { chosen.zoom = null; drawAll(); });
    byId("controls").append(label, whole);
  }

  function legend() {
    const buttons = [...document.querySelectorAll("#legend .entry")];
    const settle = () => {
      for (const button of buttons) {
        const hidden = chosen.hidden.has(Number(button.dataset.entry));
        button.setAttribute("aria-pressed", String(!hidden));
      }
      drawAll();
    };
    for (const button of buttons) {
      button.addEventListener("click", () => {
        const entry = Number(button.dataset.entry);
        if (!chosen.hidden.delete(entry)) chosen.hidden.add(entry);
        settle();
      });
    }
    byId("show-all").addEventListener("click", () => { chosen.hidden.clear(); settle(); });
  }

  // ----------------------------------------------------------------------------------- readout

  // For every line the point nearest to a pixel.
  function nearest({ panel, column, figure }, pixel) {
    const found = [];
    for (const s of shown(panel)) {
      const xs = s.mean.x[xOf(panel)], values = s.mean.y[chosen.columns[column]];
      let best = -1, distance = Infinity;
      xs.forEach((x, i) => {
        if (x === null || values.mean[i] === null) return;
        const d = Math.abs(figure.x.at(x) - pixel);
        if (d < distance) { distance = d; best = i; }
      });
      if (best >= 0) found.push({ s, i: best, values, x: xs[best] });
    }
    return found;
  }

  function valueText({ s, i, values }) {
    const fixed = (v) => (Math.abs(v) < 1e4 ? v.toFixed(4) : v.toExponential(3));
    const n = values.n[i];
    const sd = n > 1 ? ` ± ${fixed(values.sd[i])}` : "";
    return [fixed(values.mean[i]) + sd, n > 1 ? `${n} seeds` : "1 seed"];
  }

  function read(item, pixel, clientX, clientY) {
    const { figure } = item, own = item.panel.axis;
    const found = nearest(item, pixel);
    const readout = byId("readout");
    if (!found.length) { readout.hidden = true; return; }
    const dots = found
      .map(({ s, x, values, i }) => [figure.x.at(x), figure.y.at(values.mean[i]), s.entry])
      .filter(([cx, cy]) => Number.isFinite(cy) && cx >= figure.box.left - 1 && cx <= figure.box.right + 1);
    figure.point(pixel, dots);
    const table = document.createElement("table");
    for (const point of found) {
      const row = table.insertRow();
      const swatch = document.createElement("i");
      swatch.className = `e${point.s.entry}`;
      row.insertCell().append(swatch, ` ${data.entries[point.s.entry].label}`);
      const [value, seeds] = valueText(point);
      const strong = document.createElement("b");
      strong.textContent = value;
      row.insertCell().append(strong);
      row.insertCell().textContent = own || chosen.x === "epoch"
        ? seeds : `epoch ${point.s.mean.epochs[point.i]}, ${seeds}`;
    }
    const head = document.createElement("div");
    const at = figure.x.inverse(pixel);
    head.textContent = own || chosen.x === "epoch"
      ? `${own ? own.label : "epoch"} ${found[0].s.mean.epochs[found[0].i]}` : `${axis(data.x, chosen.x).label}: ${Chart.short(at)}`;
    readout.replaceChildren(head, table);
    readout.hidden = false;
    const box = readout.getBoundingClientRect();
    const left = clientX + 18 + box.width > innerWidth ? clientX - 18 - box.width : clientX + 18;
    readout.style.left = `${Math.max(4, left)}px`;
    readout.style.top = `${Math.max(4, Math.min(clientY + 14, innerHeight - box.height - 4))}px`;
  }

  function hush({ figure }) {
    figure.clear();
    byId("readout").hidden = true;
  }

  function listen(item) {
    const { figure } = item;
    const { svg } = figure;
    let from = null, cursor = null;
    svg.addEventListener("pointerdown", (event) => {
      if (!figure.x || event.button !== 0 || event.pointerType === "touch") return;
      from = figure.local(event.clientX);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!figure.x) return;
      const pixel = figure.local(event.clientX);
      if (from !== null && Math.abs(pixel - from) > 4) {
        svg.setPointerCapture(event.pointerId);
        byId("readout").hidden = true;
        figure.brush(from, pixel);
      } else read(item, pixel, event.clientX, event.clientY);
    });
    svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const ends = [from, figure.local(event.clientX)].sort((a, b) => a - b);
      from = null;
      if (ends[1] - ends[0] < 8 || item.panel.axis) return;
      chosen.zoom = ends.map((pixel) => figure.x.inverse(pixel));
      drawAll();
    });
    svg.addEventListener("pointercancel", () => { from = null; hush(item); });
    svg.addEventListener("pointerleave", () => { if (from === null) hush(item); });
    svg.addEventListener("dblclick", () => { chosen.zoom = null; drawAll(); });
    svg.addEventListener("blur", () => { cursor = null; hush(item); });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") hush(item);
      if (!move || !figure.x) return;
      event.preventDefault();
      const { left, right } = figure.box;
      const step = (right - left) / 50;
      cursor = Math.min(right, Math.max(left, (cursor ?? (left + right) / 2) + move * step));
      const box = svg.getBoundingClientRect();
      read(item, cursor, box.left + (cursor / figure.width) * box.width, box.top + 20);
    });
  }

  // ------------------------------------------------------------------------------------- build

  function saver(figure, name) {
    const button = Object.assign(document.createElement("button"), {
      type: "button", className: "plain save", textContent: "save SVG",
    });
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      const blob = new Blob([Chart.standalone(figure.svg)], { type: "image/svg+xml" });
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    return button;
  }

  function build() {
    const grid = byId("grid");
    grid.style.setProperty("--columns", data.columns.length);
    panels.forEach((panel, row) => {
      const title = Object.assign(document.createElement("div"), { className: "panel-title" });
      for (const [tag, text] of [["b", panel.title], ["span", panel.subtitle]]) {
        const node = document.createElement(tag);
        node.textContent = text;
        if (text) title.append(node, " ");
      }
      grid.append(title);
      data.columns.forEach((_, column) => {
        const holder = Object.assign(document.createElement("figure"), { className: "plot" });
        grid.append(holder);
        const label = `${panel.title || "figure"}: curves of ${panel.series.length} series; `
          + "arrow keys read values, the table below has the ends";
        const figure = new Chart.Figure(holder, label, figures.length);
        const item = { panel, column, figure, holder };
        holder.append(saver(figure, `figure-${row + 1}-${column + 1}.svg`));
        figures.push(item);
        listen(item);
      });
    });
  }

  controls();
  legend();
  build();
  drawAll();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) { width = innerWidth; drawAll(); }
  });
})();
