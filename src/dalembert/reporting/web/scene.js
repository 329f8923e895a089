"use strict";
// What moves, on a canvas. A scene is made of the data of one run and draws any of its frames; it knows nothing of time.
function numbers(text) {  // of four bytes each, in base64
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

function makeScene(canvas, data, colours, units) {
  const pen = canvas.getContext("2d"), d = data.dimension, points = numbers(data.points), TRAIL = 400;
  let drawn = 0, yaw = 0.7, pitch = 0.4, zoom = 1, shift = [0, 0], colour = {};
  const surfaces = d === 3 && data.solids.length ? makeSurfaces(canvas.width, data.solids) : null, floor = data.low[d - 1];
  const outlines = d === 2 ? data.solids.map(s => ({ frame: s.frame, color: s.color, ring: numbers(s.outline) })) : [];
  const reach = (() => {
    const { low, high } = data;
    const size = Math.max(...low.map((x, i) => high[i] - x), 1e-9) * (d === 3 ? 1.25 : 1);
    return { middle: low.map((x, i) => (x + high[i]) / 2), size };
  })();
  const scale = () => 0.82 * zoom * canvas.width / reach.size;

  function flat(p) {  // orthographic view of a point in space: right, up, and how far behind the middle
    if (d === 2) return [p[0], p[1], 0];
    const c = Math.cos(yaw), s = Math.sin(yaw), depth = s * p[0] + c * p[1];
    return [c * p[0] - s * p[1], Math.cos(pitch) * p[2] + Math.sin(pitch) * depth, Math.cos(pitch) * depth - Math.sin(pitch) * p[2]];
  }
  function place(p) {
    const q = flat(p.map((x, i) => x - reach.middle[i])), k = scale();
    return [canvas.width / 2 + shift[0] + k * q[0], canvas.height / 2 + shift[1] - k * q[1], q[2] / reach.size];
  }
  const point = (frame, k) => points.subarray((frame * data.count + k) * d, (frame * data.count + k + 1) * d);
  const at = (frame, k) => place(Array.from(point(frame, k)));
  // what lies behind is fainter
  const depth = z => (d === 2 ? 1 : Math.max(0.45, Math.min(1, 0.8 - 0.7 * z)));

  function ruler() {  // a length to measure the picture by
    const size = reach.size / zoom, step = Math.pow(10, Math.floor(Math.log10(size / 2)));
    const length = [5, 2, 1].map(x => x * step).find(x => x <= size / 2) || step, width = scale() * length, y = canvas.height - 24;
    pen.strokeStyle = pen.fillStyle = colour.faint; pen.lineWidth = 2; pen.font = "20px system-ui, sans-serif"; pen.textAlign = "left";
    pen.beginPath(); pen.moveTo(24, y - 6); pen.lineTo(24, y); pen.lineTo(24 + width, y); pen.lineTo(24 + width, y - 6); pen.stroke();
    pen.fillText(Number(length.toPrecision(3)) + (units.length ? " " + units.length : ""), 32 + width, y + 4);
  }
  function compass() {  // where the axes point
    if (d === 2) return;
    const at = [canvas.width - 70, canvas.height - 60];
    pen.lineWidth = 2; pen.font = "18px system-ui, sans-serif"; pen.textAlign = "center"; pen.strokeStyle = pen.fillStyle = colour.faint;
    ["x", "y", "z"].forEach((name, i) => {
      const q = flat([0, 1, 2].map(k => (k === i ? 40 : 0)));
      pen.beginPath(); pen.moveTo(...at); pen.lineTo(at[0] + q[0], at[1] - q[1]); pen.stroke();
      pen.fillText(name, at[0] + 1.35 * q[0], at[1] - 1.35 * q[1] + 5);
    });
  }
  function ground() {  // a grid below what stands on it
    if (!surfaces) return;
    const step = Math.pow(10, Math.floor(Math.log10(reach.size / 2))) / (reach.size / 2 < 3 * Math.pow(10, Math.floor(Math.log10(reach.size / 2))) ? 4 : 1);
    const half = Math.ceil(0.75 * reach.size / step), [x, y] = [0, 1].map(i => Math.round(reach.middle[i] / step) * step);
    pen.strokeStyle = colour.faint; pen.lineWidth = 1; pen.globalAlpha = 0.35; pen.beginPath();
    for (let k = -half; k <= half; k++) {
      for (const line of [[[x + k * step, y - half * step], [x + k * step, y + half * step]], [[x - half * step, y + k * step], [x + half * step, y + k * step]]]) {
        const [a, b] = line.map(p => place([...p, floor]));
        pen.moveTo(a[0], a[1]); pen.lineTo(b[0], b[1]);
      }
    }
    pen.stroke(); pen.globalAlpha = 1;
  }
  function bodies(frame) {
    if (surfaces) {
      const k = 2 * scale() / canvas.width, c = [2 * shift[0] / canvas.width, -2 * shift[1] / canvas.height];
      pen.drawImage(surfaces.draw(i => point(frame, i), { yaw, pitch, scale: k, shift: c, middle: reach.middle, size: reach.size }), 0, 0);
    }
    for (const { frame: f, ring, color } of outlines) {
      const [o, x, y] = f.map(i => point(frame, i));
      pen.beginPath();
      for (let k = 0; k < ring.length; k += 2) pen.lineTo(...place([0, 1].map(i => o[i] + ring[k] * (x[i] - o[i]) + ring[k + 1] * (y[i] - o[i]))));
      pen.closePath(); pen.globalAlpha = 0.55; pen.fillStyle = color; pen.fill(); pen.globalAlpha = 1; pen.strokeStyle = color; pen.lineWidth = 2; pen.stroke();
    }
  }
  function trails(frame) {
    pen.globalAlpha = 0.6; pen.lineWidth = 2;
    data.trails.forEach((k, n) => {
      pen.strokeStyle = colours[n % colours.length]; pen.beginPath();
      for (let f = Math.max(0, frame - TRAIL); f <= frame; f++) { const p = at(f, k); pen.lineTo(p[0], p[1]); }
      pen.stroke();
    });
  }
  function solids(frame) {  // bodies, rods and masses, those behind first
    const here = Array.from({ length: data.count }, (_, k) => at(frame, k)), mean = group => group.reduce((z, k) => z + here[k][2], 0) / group.length;
    const parts = [...data.bodies.map(g => [mean(g), 0, g]), ...data.links.map(g => [mean(g), 1, g]), ...data.masses.map(k => [here[k][2], 2, [k]])];
    if (d === 3) parts.sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    for (const [z, kind, group] of parts) {
      pen.globalAlpha = depth(z); pen.beginPath();
      if (kind === 0) {
        group.forEach(k => pen.lineTo(here[k][0], here[k][1])); pen.closePath();
        pen.fillStyle = colour.body; pen.fill(); pen.strokeStyle = colour.rod; pen.lineWidth = 2; pen.stroke();
      } else if (kind === 1) {
        pen.strokeStyle = colour.rod; pen.lineWidth = 4;
        pen.moveTo(here[group[0]][0], here[group[0]][1]); pen.lineTo(here[group[1]][0], here[group[1]][1]); pen.stroke();
      } else { pen.fillStyle = colour.mass; pen.arc(here[group[0]][0], here[group[0]][1], 9, 0, 7); pen.fill(); }
    }
    pen.globalAlpha = 1;
  }
  function show(frame) {
    drawn = frame;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.lineCap = pen.lineJoin = "round";
    ground(); ruler(); compass(); bodies(frame); trails(frame); solids(frame);
  }

  let hand = null;
  const looks = getComputedStyle(canvas), own = name => looks.getPropertyValue(`--${name}`).trim();
  colour = { faint: own("faint"), text: own("text"), body: own("body"), rod: own("rod"), mass: own("mass") };
  canvas.onpointerdown = e => { hand = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); };
  canvas.onpointermove = e => {
    if (!hand) return;
    const [x, y] = [e.clientX - hand[0], e.clientY - hand[1]], pixels = canvas.width / canvas.clientWidth;
    if (d === 3 && !e.shiftKey) { yaw += x / 150; pitch += y / 150; } else { shift = [shift[0] + x * pixels, shift[1] + y * pixels]; }
    hand = [e.clientX, e.clientY]; show(drawn);
  };
  canvas.onpointerup = canvas.onpointercancel = () => { hand = null; };
  canvas.addEventListener("wheel", e => {
    e.preventDefault(); zoom = Math.max(0.2, Math.min(50, zoom * Math.exp(-e.deltaY / 500))); show(drawn);
  }, { passive: false });
  canvas.ondblclick = () => { [yaw, pitch, zoom, shift] = [0.7, 0.4, 1, [0, 0]]; show(drawn); };
  const hint = [d === 3 ? "drag: turn, with shift: move" : "drag: move", "wheel: zoom", "double click: as at first"];
  return { show, hint, how: surfaces ? surfaces.how : "lines", get frame() { return drawn; } };
}
