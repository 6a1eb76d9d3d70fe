// Charts with hover and zoom: lines with bands, in SVG, without a library.
//
// panel = {title, label, axes: {KEY: TITLE}, curves: [{name, color, dashes, at: {KEY: [x]}, mean: [y], band: [[low], [high]] or null, dots}]}
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 720, HEIGHT = 300, LEFT = 68, RIGHT = 14, TOP = 10, BOTTOM = 52;

function element(parent, name, attributes = {}, text = "") {
  const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  parent.append(made);
  return made;
}

function nice(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n += 1) ticks.push(n * step);
  return ticks;
}

function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return Math.round(value).toLocaleString("en-US");
  if (size > 0 && size < 0.001) return value.toExponential(2).replace(/\.?0*e/, "e");
  return String(Number(value.toPrecision(size >= 1000 ? 5 : 4)));
}

function makeChart(host, panel, axis) {
  const state = { panel, axis, zoom: null, hidden: new Set() };
  host.replaceChildren();
  element(host, "h3", {}, panel.title);
  const legend = element(host, "div", { class: "legend" });
  const svg = element(host, "svg:svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", tabindex: "0" });
  const readout = element(host, "div", { class: "readout", "aria-live": "off" });
  const clip = `clip-${makeChart.count = (makeChart.count || 0) + 1}`;
  const color = (curve) => (curve.color === null ? "var(--ink)" : `var(--s${curve.color + 1})`);
  const points = (curve) => curve.mean
    .map((y, n) => ({ n, y, x: curve.at[state.axis][n] }))
    .filter(({ x, y }) => x !== null && y !== null);
  const shown = () => state.panel.curves.filter((curve) => !state.hidden.has(curve.name));

  function limits() {
    const xs = shown().flatMap((curve) => points(curve).map(({ x }) => x));
    const [left, right] = state.zoom || [Math.min(0, ...xs), Math.max(...xs, 1e-9)];
    const ys = shown().flatMap((curve) => points(curve).filter(({ x }) => x >= left && x <= right)
      .flatMap(({ n, y }) => [y, ...(curve.band || []).map((end) => end[n])]));
    const full = state.panel.range;
    let low = Math.min(...ys), high = Math.max(...ys);
    if (!ys.length) [low, high] = full || [0, 1];
    if (full) [low, high] = [Math.max(low, full[0]), Math.min(high, full[1])];
    const margin = 0.06 * (high - low) || Math.abs(low) * 0.1 || 1;
    return { left, right, low: low - margin, high: high + margin };
  }

  function draw() {
    const { left, right, low, high } = limits();
    const px = (x) => LEFT + ((x - left) / (right - left || 1)) * (WIDTH - LEFT - RIGHT);
    const py = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    svg.replaceChildren();
    const box = { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
    element(element(element(svg, "svg:defs"), "svg:clipPath", { id: clip }), "svg:rect", { ...box, x: LEFT - 5, width: box.width + 10 });
    for (const tick of nice(low, high, 5)) {
      element(svg, "svg:line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(tick), y2: py(tick), class: "rule" });
      element(svg, "svg:text", { x: LEFT - 8, y: py(tick) + 4, class: "tick end" }, short(tick));
    }
    for (const tick of nice(left, right, 6)) {
      element(svg, "svg:text", { x: px(tick), y: HEIGHT - BOTTOM + 19, class: "tick middle" }, short(tick));
    }
    element(svg, "svg:line", { x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "axis" });
    element(svg, "svg:text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, class: "tick middle" }, state.panel.axes[state.axis]);
    const plot = element(svg, "svg:g", { "clip-path": `url(#${clip})` });
    for (const curve of shown()) {
      const at = points(curve);
      if (curve.band && at.length) {
        const known = at.filter(({ n }) => curve.band[0][n] !== null && curve.band[1][n] !== null);
        const there = known.map(({ n, x }) => `${px(x)},${py(curve.band[1][n])}`);
        const back = known.map(({ n, x }) => `${px(x)},${py(curve.band[0][n])}`).reverse();
        element(plot, "svg:polygon", { points: [...there, ...back].join(" "), class: "band" }).style.fill = color(curve);
      }
      const line = element(plot, "svg:polyline", { points: at.map(({ x, y }) => `${px(x)},${py(y)}`).join(" "), class: "line" });
      line.style.stroke = color(curve);
      line.style.strokeDasharray = curve.dashes.map((each) => each * 2).join(" ");
      if (curve.dots || at.length < 3) {
        for (const { x, y } of at) element(plot, "svg:circle", { cx: px(x), cy: py(y), r: 3.5 }).style.fill = color(curve);
      }
    }
    const cursor = element(svg, "svg:line", { y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9, class: "cursor" });
    const brush = element(svg, "svg:rect", { ...box, x: -9, width: 0, class: "brush" });
    return { left, right, cursor, brush, px };
  }

  let view = draw();
  const place = (event) => {
    const bounds = svg.getBoundingClientRect();
    const share = ((event.clientX - bounds.left) / bounds.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    return view.left + Math.min(1, Math.max(0, share)) * (view.right - view.left);
  };

  function tell(x) {
    view.cursor.setAttribute("x1", view.px(x));
    view.cursor.setAttribute("x2", view.px(x));
    readout.replaceChildren();
    element(readout, "span", {}, `${state.panel.axes[state.axis]} ${short(x)}`);
    for (const curve of shown()) {
      const at = points(curve);
      if (!at.length || x < at[0].x || x > at[at.length - 1].x) continue;
      const near = at.reduce((best, each) => (Math.abs(each.x - x) < Math.abs(best.x - x) ? each : best));
      const ends = curve.band ? ` [${short(curve.band[0][near.n])}, ${short(curve.band[1][near.n])}]` : "";
      const item = element(readout, "span");
      element(item, "b", {}, curve.name).style.color = color(curve);
      item.append(` ${short(near.y)}${ends} at ${short(near.x)}`);
    }
  }

  let from = null;
  svg.addEventListener("pointerdown", (event) => { from = place(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointermove", (event) => {
    const x = place(event);
    tell(x);
    if (from === null) return;
    const [a, b] = [view.px(Math.min(from, x)), view.px(Math.max(from, x))];
    view.brush.setAttribute("x", a);
    view.brush.setAttribute("width", b - a);
  });
  svg.addEventListener("pointerup", (event) => {
    const ends = [from, place(event)].sort((a, b) => a - b);
    const wide = from !== null && ends[1] - ends[0] > 0.02 * (view.right - view.left);
    from = null;
    if (wide) state.zoom = ends;
    view = draw();
  });
  const whole = () => { state.zoom = null; view = draw(); };
  svg.addEventListener("dblclick", whole);
  svg.addEventListener("keydown", (event) => {
    const middle = (view.left + view.right) / 2, half = (view.right - view.left) / 2;
    if (event.key === "Escape") whole();
    if (event.key === "+") { state.zoom = [middle - half / 2, middle + half / 2]; view = draw(); }
  });

  function keys() {
    legend.replaceChildren();
    for (const curve of state.panel.curves) {
      const button = element(legend, "button", { type: "button", "aria-pressed": String(!state.hidden.has(curve.name)) });
      const sample = element(button, "svg:svg", { viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" });
      const line = element(sample, "svg:line", { x1: 0, x2: 26, y1: 4, y2: 4, class: "line" });
      line.style.stroke = color(curve);
      line.style.strokeDasharray = curve.dashes.map((each) => each * 2).join(" ");
      button.append(curve.name);
      button.addEventListener("click", () => {
        if (!state.hidden.delete(curve.name)) state.hidden.add(curve.name);
        keys();
        view = draw();
      });
    }
    element(legend, "button", { type: "button", class: "whole" }, "whole range").addEventListener("click", whole);
    svg.setAttribute("aria-label", `${state.panel.title}: ${state.panel.label}`);
  }
  keys();
  return {
    update(changed) { Object.assign(state, changed); keys(); view = draw(); },
    whole,
  };
}
