"use strict";
// Surfaces in space with light, on a canvas of its own, which a scene copies. A view is that of the scene: orthographic.
// WebGL draws them; in browsers that have none, triangles are painted one after another, those behind first.
const VERTEX = `
  attribute vec3 corner, normal; uniform mat3 frame, turn; uniform vec3 origin, middle; uniform vec2 shift; uniform float scale, depth;
  varying vec3 facing, place;
  void main() {
    vec3 p = turn * (origin + frame * corner - middle);
    facing = turn * normalize(frame * normal); place = p;
    gl_Position = vec4(scale * p.xy + shift, p.z / depth, 1.0);
  }`;
const FRAGMENT = `
  precision mediump float; uniform vec3 color; varying vec3 facing, place;
  void main() {
    vec3 n = normalize(facing); if (n.z > 0.0) n = -n;
    float lit = max(dot(n, normalize(vec3(-0.35, 0.65, -0.7))), 0.0), edge = max(dot(n, normalize(vec3(0.7, 0.1, -0.5))), 0.0);
    float shine = pow(max(dot(n, normalize(vec3(-0.18, 0.33, -0.93))), 0.0), 40.0);
    gl_FragColor = vec4(color * (0.38 + 0.62 * lit + 0.12 * edge) + 0.22 * shine, 1.0);
  }`;

function turning(view) {  // from the world to right, up and behind, column by column
  const c = Math.cos(view.yaw), s = Math.sin(view.yaw), C = Math.cos(view.pitch), S = Math.sin(view.pitch);
  return [c, S * s, C * s, -s, S * c, C * c, 0, C, -S];
}
const rgbOf = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));

function makePainted(canvas, solids) {
  const pen = canvas.getContext("2d"), half = canvas.width / 2;
  const parts = solids.map(s => ({ frame: s.frame, corners: numbers(s.corners), rgb: rgbOf(s.color) }));
  function draw(point, view) {
    const T = turning(view), triangles = [];
    for (const part of parts) {
      const [o, ...tips] = part.frame.map(point), axes = tips.map(tip => [0, 1, 2].map(i => tip[i] - o[i])), seen = [];
      for (let k = 0; k < part.corners.length; k += 3) {
        const p = [0, 1, 2].map(i => o[i] - view.middle[i] + axes.reduce((x, a, j) => x + a[i] * part.corners[k + j], 0));
        seen.push([0, 1, 2].map(i => T[i] * p[0] + T[3 + i] * p[1] + T[6 + i] * p[2]));
      }
      for (let k = 0; k < seen.length; k += 3) {
        const [a, b, c] = seen.slice(k, k + 3), u = b.map((x, i) => x - a[i]), v = c.map((x, i) => x - a[i]);
        const n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]], size = Math.hypot(...n) || 1;
        if (n[2] >= 0) continue;  // it faces away
        const lit = 0.4 + 0.6 * Math.max(0, (-0.35 * n[0] + 0.65 * n[1] - 0.7 * n[2]) / (1.02 * size));
        triangles.push([a[2] + b[2] + c[2], [a, b, c], `rgb(${part.rgb.map(x => Math.round(x * lit)).join(",")})`]);
      }
    }
    triangles.sort((a, b) => b[0] - a[0]);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (const [, corners, fill] of triangles) {
      pen.beginPath();
      for (const p of corners) pen.lineTo(half * (1 + view.scale * p[0] + view.shift[0]), half * (1 - view.scale * p[1] - view.shift[1]));
      pen.closePath(); pen.fillStyle = pen.strokeStyle = fill; pen.fill(); pen.stroke();
    }
    return canvas;
  }
  return { draw, how: "painted" };
}

function makeSurfaces(pixels, solids) {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = pixels;
  const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
  if (!gl) return makePainted(canvas, solids);
  const shader = (kind, source) => { const s = gl.createShader(kind); gl.shaderSource(s, source); gl.compileShader(s); return s; };
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER, VERTEX)); gl.attachShader(program, shader(gl.FRAGMENT_SHADER, FRAGMENT));
  gl.linkProgram(program); gl.useProgram(program); gl.enable(gl.DEPTH_TEST); gl.clearColor(0, 0, 0, 0);
  const at = name => gl.getUniformLocation(program, name), attribute = name => gl.getAttribLocation(program, name);
  const [corner, normal] = [attribute("corner"), attribute("normal")];
  const place = Object.fromEntries(["frame", "turn", "origin", "middle", "shift", "scale", "depth", "color"].map(name => [name, at(name)]));
  const loaded = values => { const b = gl.createBuffer(); gl.bindBuffer(gl.ARRAY_BUFFER, b); gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW); return b; };
  const parts = solids.map(s => {
    const corners = numbers(s.corners), rgb = rgbOf(s.color).map(x => x / 255);
    return { frame: s.frame, count: corners.length / 3, corners: loaded(corners), normals: loaded(numbers(s.normals)), rgb };
  });
  function bind(which, buffer) { gl.bindBuffer(gl.ARRAY_BUFFER, buffer); gl.enableVertexAttribArray(which); gl.vertexAttribPointer(which, 3, gl.FLOAT, false, 0, 0); }
  function draw(point, view) {
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(place.turn, false, turning(view));
    gl.uniform3fv(place.middle, view.middle); gl.uniform2fv(place.shift, view.shift);
    gl.uniform1f(place.scale, view.scale); gl.uniform1f(place.depth, 4 * view.size);
    for (const part of parts) {
      const [o, ...tips] = part.frame.map(point);
      gl.uniformMatrix3fv(place.frame, false, tips.flatMap(tip => [0, 1, 2].map(i => tip[i] - o[i])));
      gl.uniform3fv(place.origin, o); gl.uniform3fv(place.color, part.rgb);
      bind(corner, part.corners); bind(normal, part.normals);
      gl.drawArrays(gl.TRIANGLES, 0, part.count);
    }
    return canvas;
  }
  return { draw, how: "webgl" };
}
