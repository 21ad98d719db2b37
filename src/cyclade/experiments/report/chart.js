"use strict";
// One figure as SVG: scales, ticks, lines, bands. It knows nothing of the page around it.
const Chart = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const MARGIN = { top: 10, right: 12, bottom: 44, left: 62 };
  const LINE = 13; // between two names
  const UNITS = [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];

  function make(name, attributes, parent, text) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  function short(number, digits = 4) {
    const trimmed = (value) => String(Number(value.toPrecision(digits)));
    for (const [size, unit] of UNITS) {
      if (Math.abs(number) >= size) return trimmed(number / size) + unit;
    }
    if (number !== 0 && Math.abs(number) < 1e-3) return number.toExponential(Math.max(1, digits - 3));
    return trimmed(number);
  }

  // As few digits as tell the ticks apart.
  function labels(ticks) {
    let found = [];
    for (let digits = 4; digits <= 12; digits++) {
      found = ticks.map((tick) => short(tick, digits));
      if (new Set(found).size === ticks.length) break;
    }
    return found;
  }

  // Ticks at multiples of 1, 2 or 5 times a power of ten.
  function linearTicks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.8);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
      ticks.push(Number((i * step).toPrecision(12)));
    }
    return ticks;
  }

  function logTicks(low, high) {
    const decades = Math.log10(high / low);
    const marks = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const mark of marks) {
        const tick = Number((mark * 10 ** power).toPrecision(12));
        if (tick >= low * 0.9999 && tick <= high * 1.0001) ticks.push(tick);
      }
    }
    return ticks;
  }

  function scale([low, high], [from, to], log) {
    const turn = log ? Math.log10 : (value) => value;
    const back = log ? (value) => 10 ** value : (value) => value;
    const [a, b] = [turn(low), turn(high)];
    return {
      at: (value) => from + ((turn(value) - a) / (b - a)) * (to - from),
      inverse: (pixel) => back(a + ((pixel - from) / (to - from)) * (b - a)),
      ticks: (count) => (log ? logTicks(low, high) : linearTicks(low, high, count)),
    };
  }

  // A little room around the values; log scales drop what is not above 0.
  function domain(values, log, room) {
    const kept = values.filter((v) => v !== null && (!log || v > 0));
    if (!kept.length) return null;
    let low = Infinity, high = -Infinity;
    for (const v of kept) { low = Math.min(low, v); high = Math.max(high, v); }
    if (low === high) {
      const pad = Math.abs(low) * 0.1 || 1;
      return log ? [low / 1.3, high * 1.3] : [low - pad, high + pad];
    }
    if (log) {
      const factor = (high / low) ** room;
      return [low / factor, high * factor];
    }
    const pad = (high - low) * room;
    return [low - pad, high + pad];
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function textWidth(text) {
    ruler.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
    return ruler.measureText(text).width;
  }

  const coordinate = (number) => number.toFixed(2);
  const path = (points) =>
    points.map(([x, y], i) => `${i ? "L" : "M"}${coordinate(x)},${coordinate(y)}`).join("");

  class Figure {
    constructor(holder, label, number) {
      this.svg = make("svg", { tabindex: 0, role: "img", "aria-label": label }, holder);
      this.clip = `clip${number}`;
    }

    // frame: {width, x: [low, high], y: [low, high], log, whole, right, ticks, xLabel, yLabel}
    // whole: x is counted; right: room for labels; ticks: pairs of place and text, if they are given
    begin(frame) {
      const width = Math.max(260, frame.width), height = Math.round(width * 0.44 + 96);
      Object.assign(this, { width, height });
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.box = {
        left: MARGIN.left, right: width - Math.max(MARGIN.right, frame.right || 0),
        top: MARGIN.top, bottom: height - MARGIN.bottom,
      };
      const { left, right, top, bottom } = this.box;
      this.yLabel(frame.yLabel);
      make("text", {
        class: "axis x-label", x: (left + right) / 2, y: height - 6, "text-anchor": "middle",
      }, this.svg, frame.xLabel);
      if (!frame.x || !frame.y) {
        this.x = this.y = null;
        return false;
      }
      this.x = scale(frame.x, [left, right], false);
      this.y = scale(frame.y, [bottom, top], frame.log);
      const clip = make("clipPath", { id: this.clip }, make("defs", {}, this.svg));
      make("rect", { x: left, y: top, width: right - left, height: bottom - top }, clip);
      const rules = this.y.ticks(6), named = labels(rules);
      for (const [i, tick] of rules.entries()) {
        const y = this.y.at(tick);
        make("line", { class: "rule", x1: left, x2: right, y1: y, y2: y }, this.svg);
        make("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, this.svg, named[i]);
      }
      const marks = frame.ticks ? frame.ticks.map(([place]) => place)
        : this.x.ticks(Math.max(3, Math.round((right - left) / 90)))
          .filter((tick) => !frame.whole || Number.isInteger(tick));
      const under = frame.ticks ? frame.ticks.map(([, text]) => text) : labels(marks);
      for (const [i, tick] of marks.entries()) {
        const x = this.x.at(tick);
        make("line", { class: "frame", x1: x, x2: x, y1: bottom, y2: bottom + 4 }, this.svg);
        make("text", { x, y: bottom + 18, "text-anchor": "middle" }, this.svg, under[i]);
      }
      make("line", { class: "frame", x1: left, x2: right, y1: bottom, y2: bottom }, this.svg);
      this.bands = make("g", { "clip-path": `url(#${this.clip})` }, this.svg);
      this.lines = make("g", { "clip-path": `url(#${this.clip})` }, this.svg);
      this.marks = make("g", {}, this.svg);
      this.pointer = make("g", { class: "pointer" }, this.svg);
      return true;
    }

    // To be called when everything is drawn: an empty frame says that it is meant to be empty.
    end() {
      if (this.svg.querySelector("[data-entry]")) return;
      const { left, right, top, bottom } = this.box;
      make("text", { class: "empty", x: (left + right) / 2, y: (top + bottom) / 2 }, this.svg,
        "nothing to draw on these axes");
    }

    yLabel(text) {
      const y = (this.box.top + this.box.bottom) / 2;
      make("text", {
        class: "axis y-label", transform: `translate(11 ${y}) rotate(-90)`, "text-anchor": "middle",
      }, this.svg, text);
    }

    // Points are [x, y] in data; those that cannot be placed are left out.
    placed(points) {
      return points
        .map(([x, y]) => (x === null || y === null ? null : [this.x.at(x), this.y.at(y)]))
        .filter((p) => p && Number.isFinite(p[0]) && Number.isFinite(p[1]));
    }

    line(points, entry, kind, dash) {
      const there = this.placed(points);
      if (there.length === 1 && kind === "line") {
        const [cx, cy] = there[0];
        make("circle", { class: `dot e${entry}`, cx, cy, r: 4, "data-entry": entry }, this.marks);
      }
      if (there.length < 2) return;
      make("path", {
        class: `${kind} e${entry}`, d: path(there), "data-entry": entry,
        "stroke-dasharray": dash || "none",
      }, this.lines);
    }

    // Open ones stand for fewer runs than the others.
    dots(points, entry, open) {
      points.forEach((point, i) => this.placed([point]).forEach(([cx, cy]) => {
        const kind = open[i] ? "dot open" : "dot";
        make("circle", { class: `${kind} e${entry}`, cx, cy, r: 4, "data-entry": entry }, this.marks);
      }));
    }

    // Triples [x, low, high]; what lies below a log axis is drawn down to its foot.
    band(triples, entry) {
      const foot = this.y.inverse(this.box.bottom);
      const raised = (v) => (Number.isFinite(this.y.at(v)) ? v : foot);
      const there = triples.filter((t) => t.every((v) => v !== null));
      if (there.length < 2) return;
      const upper = this.placed(there.map(([x, , high]) => [x, raised(high)]));
      const lower = this.placed(there.map(([x, low]) => [x, raised(low)]));
      make("path", {
        class: `band e${entry}`, d: `${path(upper.concat(lower.reverse()))}Z`, "data-entry": entry,
      }, this.bands);
    }

    // Names at the ends of the lines, in the order of their ends, moved apart where they would lie
    // on one another. ends: {x, y, text, entry} in data
    names(ends) {
      const { right, top, bottom } = this.box;
      const places = ends
        .map((end) => ({ ...end, at: this.placed([[end.x, end.y]])[0] }))
        .filter((end) => end.at && end.at[0] <= right + 1)
        .map((end) => ({
          ...end, x: end.at[0] + 6, width: textWidth(end.text),
          y: Math.min(Math.max(end.at[1], top + 5), bottom - 5),
        }))
        .sort((a, b) => a.y - b.y);
      const beside = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width;
      for (let turn = 0; turn < 60; turn++) {
        places.forEach((b, i) => places.slice(0, i).filter((a) => beside(a, b)).forEach((a) => {
          const short = LINE - (b.y - a.y);
          if (short > 0) { a.y -= short / 2; b.y += short / 2; }
        }));
      }
      for (const { text, entry, at, x, y } of places) {
        if (Math.abs(y - at[1]) > 5) {
          make("path", { class: `leader e${entry}`, d: path([at, [x - 1, y]]) }, this.marks);
        }
        make("text", { class: `name e${entry}`, x, y: y + 4, "data-name": entry }, this.marks, text);
      }
    }

    // A triangle at the edge: there is something beyond it, which the title names.
    beyond(x, above, entry, title) {
      const [there] = this.placed([[x, this.y.inverse(above ? this.box.top : this.box.bottom)]]);
      if (!there || there[0] < this.box.left - 1 || there[0] > this.box.right + 1) return;
      const [px, py, d] = [there[0], there[1], above ? 1 : -1];
      const node = make("path", {
        class: `beyond e${entry}`, "data-entry": entry,
        d: `M${px},${py - 7 * d}l5,${8 * d}h-10Z`,
      }, this.marks);
      make("title", {}, node, title);
    }

    // Where a diverged run was last seen, kept inside the frame.
    cross(point, entry, title) {
      const [there] = this.placed([point]);
      if (!there) return;
      const x = Math.min(Math.max(there[0], this.box.left), this.box.right);
      const y = Math.min(Math.max(there[1], this.box.top), this.box.bottom);
      const node = make("path", {
        class: `cross e${entry}`, "data-entry": entry,
        d: `M${x - 5},${y - 5}l10,10m0,-10l-10,10`,
      }, this.marks);
      make("title", {}, node, title);
    }

    point(x, dots) {
      this.pointer.replaceChildren();
      const { top, bottom } = this.box;
      make("line", { class: "cursor", x1: x, x2: x, y1: top, y2: bottom }, this.pointer);
      for (const [cx, cy, entry] of dots) {
        make("circle", { class: `dot e${entry}`, cx, cy, r: 4 }, this.pointer);
      }
    }

    brush(from, to) {
      this.pointer.replaceChildren();
      make("rect", {
        class: "brush", x: Math.min(from, to), y: this.box.top,
        width: Math.abs(to - from), height: this.box.bottom - this.box.top,
      }, this.pointer);
    }

    clear() {
      if (this.x) this.pointer.replaceChildren();
    }

    // A pixel of the window as one of the figure's own.
    local(clientX) {
      const box = this.svg.getBoundingClientRect();
      const x = ((clientX - box.left) / box.width) * this.width;
      return Math.min(Math.max(x, this.box.left), this.box.right);
    }
  }

  // The figure as a file of its own, with the colours it has on the screen.
  function standalone(svg) {
    const copy = svg.cloneNode(true);
    const kept = [
      "fill", "stroke", "stroke-width", "opacity", "font-family", "font-size", "paint-order",
    ];
    const [from, to] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
    from.forEach((node, i) => {
      const style = getComputedStyle(node);
      for (const name of kept) to[i].setAttribute(name, style.getPropertyValue(name));
      to[i].removeAttribute("class");
    });
    copy.setAttribute("xmlns", NS);
    return new XMLSerializer().serializeToString(copy);
  }

  return { Figure, domain, short, standalone, textWidth };
})();
