const state = document.getElementById("status");
const metric = document.getElementById("metric");
const empty = { title: "Reward", label: "reward", axes: { step: "updates" }, curves: [] };
const reward = makeChart(document.getElementById("reward"), empty, "step");
const chosen = makeChart(document.getElementById("chosen"), { ...empty, title: "Metric", label: "metric" }, "step");
let seen = "", metrics = {};

function drawChosen() {
  const [steps, values] = metrics[metric.value] || [[], []];
  const curve = { name: metric.value, color: 2, dashes: [], at: { step: steps }, mean: values, band: null };
  chosen.update({ panel: { title: "Metric", label: metric.value, axes: { step: "updates" }, curves: [curve] } });
}

function show(data) {
  seen = data.version;
  metrics = data.metrics;
  state.textContent = data.status;
  state.className = `status ${data.tone}`;
  reward.update({ panel: data.reward });
  const names = Object.keys(metrics).sort();
  const before = metric.value;
  metric.replaceChildren(...names.map((name) => new Option(name)));
  if (names.includes(before)) metric.value = before;
  drawChosen();
}

metric.addEventListener("change", () => { chosen.update({ zoom: null }); drawChosen(); });

async function poll() {
  try {
    const answer = await fetch(`data?seen=${encodeURIComponent(seen)}`);
    if (!answer.ok) throw new Error(answer.statusText);
    const data = await answer.json();
    if (!data.same) show(data);
    if (data.ended) return;
  } catch (error) {
    state.textContent += state.textContent.endsWith("(no longer served)") ? "" : " (no longer served)";
    return;
  }
  setTimeout(poll, 2000);
}
poll();
