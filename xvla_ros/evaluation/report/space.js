// A view of paths in space, turned by dragging: orthographic, base frame with z up.

class Space {
  constructor(label, width = 420, height = 340) {
    this.size = [width, height];
    this.turn = -0.9;
    this.tilt = 0.5;
    this.paths = [];
    this.node = sv("svg", { class: "space", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    this.turned = false;
    let from = null;
    this.node.addEventListener("pointerdown", (e) => { from = [e.clientX, e.clientY]; this.node.setPointerCapture(e.pointerId); });
    this.node.addEventListener("pointermove", (e) => {
      if (!from) return;
      this.turned = true;
      this.turn += (e.clientX - from[0]) * 0.01;
      this.tilt = Math.min(1.55, Math.max(-0.3, this.tilt + (e.clientY - from[1]) * 0.008));
      from = [e.clientX, e.clientY];
      this.draw();
    });
    for (const kind of ["pointerup", "pointercancel"]) this.node.addEventListener(kind, () => { from = null; });
  }

  // paths: [{points: [[x, y, z] in mm], colour, thin, dash, ends}]
  show(paths) {
    this.paths = paths;
    const points = paths.flatMap((p) => p.points).filter((p) => p.every(known));
    const ranges = [0, 1, 2].map((axis) => {
      const values = points.map((p) => p[axis]);
      return values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    });
    const size = Math.max(20, ...ranges.map(([low, high]) => high - low));
    this.step = [5, 10, 20, 50, 100, 200, 500].find((n) => n * 8 >= size) || 1000;
    this.centre = ranges.map(([low, high]) => (low + high) / 2);
    // The floor is a grid line's height below everything, its extent whole cells.
    this.floor = Math.floor(ranges[2][0] / this.step - 0.25) * this.step;
    this.cells = [0, 1].map((axis) => {
      const half = size / 2;
      return [Math.floor((this.centre[axis] - half) / this.step), Math.ceil((this.centre[axis] + half) / this.step)];
    });
    if (!this.turned) this.turn = this.broadside(points);
    this.scale = (0.53 * this.size[1]) / size;
    this.draw();
  }

  // The direction from which the paths are widest, a little from the side.
  broadside(points) {
    let [xx, xy, yy] = [0, 0, 0];
    for (const [x, y] of points) {
      const [a, b] = [x - this.centre[0], y - this.centre[1]];
      xx += a * a; xy += a * b; yy += b * b;
    }
    const along = 0.5 * Math.atan2(2 * xy, xx - yy);
    const turn = along - Math.PI / 2;
    // Of the two opposite directions the one nearer to the operator's, behind the arm's right.
    return (Math.cos(turn + 0.9) >= 0 ? turn : turn + Math.PI) + 0.3;
  }

  project([x, y, z]) {
    const [a, b, c] = [x - this.centre[0], y - this.centre[1], z - this.centre[2]];
    const across = a * Math.sin(this.turn) * -1 + b * Math.cos(this.turn);
    const away = a * Math.cos(this.turn) + b * Math.sin(this.turn);
    const up = c * Math.cos(this.tilt) - away * Math.sin(this.tilt) * -1;
    return [this.size[0] / 2 + across * this.scale, 0.47 * this.size[1] - up * this.scale];
  }

  line(points) {
    let text = "", pen = false;
    for (const p of points) {
      if (!p.every(known)) { pen = false; continue; }
      const [x, y] = this.project(p);
      text += (pen ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
      pen = true;
    }
    return text;
  }

  draw() {
    const [[x0, x1], [y0, y1]] = this.cells.map((c) => c.map((n) => n * this.step));
    const grid = [];
    for (let x = x0; x <= x1; x += this.step) grid.push(this.line([[x, y0, this.floor], [x, y1, this.floor]]));
    for (let y = y0; y <= y1; y += this.step) grid.push(this.line([[x0, y, this.floor], [x1, y, this.floor]]));
    const items = [sv("path", { class: "floor", d: grid.join("") })];
    const origin = [x0, y0, this.floor];
    [["x", [1, 0, 0]], ["y", [0, 1, 0]], ["z", [0, 0, 1]]].forEach(([name, way]) => {
      const tipAt = origin.map((v, i) => v + way[i] * this.step * 1.5);
      const label = this.project(origin.map((v, i) => v + way[i] * this.step * 1.85));
      items.push(sv("path", { class: "line", style: `--c:var(--${name})`, d: this.line([origin, tipAt]) }));
      items.push(sv("text", { x: label[0], y: label[1] + 4, "text-anchor": "middle" }, name));
    });
    for (const path of this.paths) {
      if (!path.thin) {
        const below = path.points.map((p) => [p[0], p[1], known(p[2]) ? this.floor : null]);
        items.push(sv("path", { class: "ghost", style: `--c:${path.colour}`, d: this.line(below) }));
      }
    }
    for (const path of this.paths) {
      const kind = "line" + (path.thin ? " thin" : "") + (path.dash ? " dash" : "");
      items.push(sv("path", { class: kind, style: `--c:${path.colour}`, d: this.line(path.points) }));
      const whole = path.points.filter((p) => p.every(known));
      if (path.ends && whole.length) {
        const [x, y] = this.project(whole[whole.length - 1]);
        items.push(sv("circle", { class: "dot", style: `--c:${path.colour}`, cx: x, cy: y, r: 4 }));
      }
    }
    items.push(sv("text", { x: this.size[0] - 8, y: this.size[1] - 8, "text-anchor": "end" }, `grid ${this.step} mm \u00b7 drag to turn`));
    this.node.replaceChildren(...items);
  }
}
