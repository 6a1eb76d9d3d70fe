const data = JSON.parse(document.getElementById("data").textContent);
const axis = document.getElementById("axis");
const charts = data.map((panel) => {
  const host = element(document.getElementById("panels"), "figure", { class: "card panel" });
  return makeChart(host, panel, axis.value);
});
axis.addEventListener("change", () => charts.forEach((chart) => chart.update({ axis: axis.value, zoom: null })));
