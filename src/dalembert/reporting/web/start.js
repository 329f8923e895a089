"use strict";
// Puts the page together: a scene for each run, one player, figures with cursors, and what hands and keys do.
unpacked.then(() => {
  const find = id => document.getElementById(id), { runs, figures, colours, units } = data;
  const longest = runs.reduce((a, b) => (b.t.at(-1) - b.t[0] > a.t.at(-1) - a.t[0] ? b : a)), player = makePlayer(longest.t);
  const scenes = runs.filter(run => run.scene).map((run, k) => {
    const frame = document.createElement("div"), canvas = document.createElement("canvas");
    canvas.width = canvas.height = runs.length > 1 ? 560 : 720; canvas.id = k ? `mechanism${k}` : "mechanism";
    if (runs.length > 1) { const name = document.createElement("p"); name.className = "run"; name.textContent = run.name; frame.appendChild(name); }
    frame.appendChild(canvas); find("scenes").appendChild(frame);
    return { ...run, scene: makeScene(canvas, run.scene, colours, units), at: makeRow(run.t) };
  });
  function makeRow(times) {  // the last frame of a run at a time; times go mostly upwards by small steps
    let k = 0;
    return t => { if (times[k] > t) k = 0; while (k < times.length - 1 && times[k + 1] <= t) k++; return k; };
  }
  find("scenes").classList.toggle("several", runs.length > 1);
  find("stage").classList.toggle("plain", !scenes.length);
  const span = [Math.min(...runs.map(r => r.t[0])), Math.max(...runs.map(r => r.t.at(-1)))];
  const go = t => player.seek(player.row(t));
  const drawn = figures.map((f, i) => makeFigure(find("figures"), f, i, { colours, units, span, go, several: runs.length > 1 })).filter(Boolean);
  const slider = find("time"), clock = find("clock"), button = find("play");
  slider.max = longest.t.length - 1;
  player.listen((frame, t) => {
    for (const run of scenes) run.scene.show(run.t === longest.t ? frame : run.at(t));
    for (const figure of drawn) figure.cursor(t);
    clock.textContent = "t = " + t.toPrecision(4) + (units.time ? " " + units.time : "");
    slider.value = frame;
  });
  const play = on => { player.play(on); button.textContent = player.playing ? "pause" : "play"; };
  button.onclick = () => play(!player.playing);
  slider.oninput = () => player.seek(Number(slider.value));
  find("speed").onchange = e => { player.speed = Number(e.target.value); };
  find("hint").textContent = ["space: play and pause", "arrows: one frame", "click in a figure: go there", ...(scenes.length ? scenes[0].scene.hint : [])].join("; ")
    + (figures.some(f => f.log) ? "; zeros are drawn at 1e-17 on logarithmic axes" : "");
  document.addEventListener("keydown", e => {
    if (e.target.tagName === "SELECT" || e.target.tagName === "BUTTON") return;
    if (e.key === " ") { e.preventDefault(); button.click(); }
    const side = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (side && e.target !== slider) player.seek(player.frame + side);
  });
  window.dalembert = {
    show: player.seek, get frame() { return player.frame; }, get playing() { return player.playing; }, time: () => player.time, drawn: scenes.map(run => run.scene.how), names: drawn.map(f => f.id),
  };
});
