"use strict";
// The clock of the page. While it plays, the time of the motion is that of the wall times the speed, whatever a frame costs.
// All that shows a time is told the frame of the longest run, and its time.
function makePlayer(times) {
  const listeners = [], last = times.length - 1;
  let frame = 0, playing = false, speed = 1, began = null;  // began: a time of the wall, and the time of the motion at it

  function row(t, near) {  // the last frame that is not later, by bisection from where it was
    let low = times[near] <= t ? near : 0, high = last;
    while (low < high) { const k = (low + high + 1) >> 1; if (times[k] <= t) low = k; else high = k - 1; }
    return low;
  }
  function seek(k) {
    frame = Math.max(0, Math.min(last, k)); began = null;
    for (const listen of listeners) listen(frame, times[frame]);
  }
  function tick(now) {
    if (!playing) return;
    began ??= { wall: now, motion: times[frame] };
    let t = began.motion + (now - began.wall) / 1000 * speed;
    if (t > times[last]) { began = { wall: now, motion: times[0] }; t = times[0]; }
    const k = row(t, frame);
    if (k !== frame) { frame = k; for (const listen of listeners) listen(frame, times[frame]); }
    requestAnimationFrame(tick);
  }
  function play(on) {
    if (on === playing) return;
    playing = on; began = null;
    if (on) { if (frame === last) seek(0); requestAnimationFrame(tick); }
  }
  // a page that nobody sees is not drawn; it goes on where it was
  document.addEventListener("visibilitychange", () => { began = null; });
  return {
    listen: f => { listeners.push(f); f(frame, times[frame]); }, seek, play, row: t => row(t, 0),
    set speed(x) { speed = x; began = null; },
    get frame() { return frame; }, get playing() { return playing; }, get time() { return times[frame]; },
  };
}
