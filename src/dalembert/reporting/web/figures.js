"use strict";
// The figures, each with a legend that switches its lines on and off, and a cursor: an element that is moved, never a new plot.
const escaped = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const DASHES = ["solid", "dash", "dot", "dashdot"];

function axisOf(f) {
  if (!f.log) return { type: "linear" };
  const all = f.lines.flatMap(l => l.y.map(Math.log10));  // at least two decades, labels at decades
  const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b)), middle = (low + high) / 2, half = Math.max(1, 0.55 * (high - low));
  return { type: "log", range: [middle - half, middle + half], dtick: Math.max(1, Math.ceil(half / 2.5)) };
}

function legendOf(f, div, colours) {
  const legend = document.createElement("div");
  legend.className = "legend";
  f.lines.forEach((line, n) => {
    const chip = document.createElement("button");
    chip.type = "button"; chip.innerHTML = `<i></i>${line.name}`;  // escaped when it was written
    chip.firstChild.style.borderTop = `2px ${["solid", "dashed", "dotted", "dashed"][line.dash % 4]} ${colours[line.colour % colours.length]}`;
    chip.setAttribute("aria-pressed", String(!line.hidden));
    chip.onclick = () => {
      const on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", String(on)); Plotly.restyle(div, { visible: on }, [n]);
    };
    legend.appendChild(chip);
  });
  return legend;
}

function makeFigure(parent, f, i, { colours, units, span, go, several }) {
  const whole = document.createElement("figure");
  whole.innerHTML = `<figcaption>${escaped(f.title)} <small>${f.label}</small></figcaption>`;
  parent.appendChild(whole);
  if (f.words) { const p = document.createElement("p"); p.className = "words"; p.textContent = f.words; whole.appendChild(p); }
  if (!f.lines.length) return null;
  const div = document.createElement("div"), line = document.createElement("div");
  div.className = "figure"; div.id = "figure" + i; line.className = "cursor";
  if (f.lines.length > 1 || several) whole.appendChild(legendOf(f, div, colours));
  whole.appendChild(div);
  const traces = f.lines.map(l => ({
    x: f.t[l.t], y: l.y, name: l.name, mode: "lines", visible: !l.hidden,
    line: { width: 1.4, simplify: false, color: colours[l.colour % colours.length], dash: DASHES[l.dash % 4] },
  }));
  const font = getComputedStyle(document.body), ink = font.getPropertyValue("--text").trim(), grid = font.getPropertyValue("--grid").trim();
  const side = { tickfont: { size: 11 }, gridcolor: grid, zerolinecolor: grid, automargin: false };
  const layout = {
    margin: { l: 66, r: 12, t: 6, b: 40 }, hovermode: "x unified", showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink }, hoverlabel: { bgcolor: font.getPropertyValue("--panel").trim() },
    xaxis: { ...side, range: span, title: { text: units.time ? `time (${escaped(units.time)})` : "time", font: { size: 12 }, standoff: 6 } },
    yaxis: { ...side, ...axisOf(f), exponentformat: "power", nticks: 6 },
  };
  Plotly.newPlot(div, traces, layout, { responsive: true, displayModeBar: false });
  div.appendChild(line);
  let origin = 0, slope = 0, shown = span[0];
  const cursor = t => { shown = t; line.style.transform = `translateX(${origin + slope * t}px)`; };
  function measure() {  // after every layout of the figure, of the area that was drawn: a pixel is linear in the time
    const { l, t, w, h } = div._fullLayout._size, [low, high] = div.layout.xaxis.range;
    slope = w / (high - low); origin = l - slope * low;
    line.style.top = t + "px"; line.style.height = h + "px"; cursor(shown);
  }
  div.on("plotly_afterplot", measure); measure();
  div.on("plotly_click", e => go(e.points[0].x));
  return { id: div.id, cursor };
}
