// The graph on a canvas: drawing, moving, pointing. Not here: where nodes stand (layout.js).

const FAR = 0.28; // scales below which nodes are blocks of colour

class Graph {
  constructor(canvas, hooks) {
    Object.assign(this, { canvas, hooks, view: { nodes: [], edges: [], groups: [] }, x: 0, y: 0, scale: 1, selected: null, hot: new Set(), frames: [] });
    this.pen = canvas.getContext("2d");
    this.colours = () => null;
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
    this.listen();
  }

  static measure(text, bold) {
    Graph.ruler ??= document.createElement("canvas").getContext("2d");
    Graph.ruler.font = bold ? "600 13px system-ui, sans-serif" : "11.5px system-ui, sans-serif";
    return Graph.ruler.measureText(text).width;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = window.devicePixelRatio || 1;
    [this.width, this.height] = [box.width, box.height];
    this.canvas.width = Math.max(1, box.width * this.ratio);
    this.canvas.height = Math.max(1, box.height * this.ratio);
    this.draw();
  }

  theme() {
    const style = getComputedStyle(document.documentElement);
    this.paint = Object.fromEntries(["bg", "node", "line", "text", "muted", "faint", "edge", "accent", "bad", "grid", "raised", "panel"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.draw();
  }

  show(view) {
    this.view = view;
    this.nodeOf = new Map();
    for (const node of view.nodes) {
      for (const n of node.ops) this.nodeOf.set(n, node);
    }
    this.byKey = new Map(view.nodes.map((node) => [node.key, node]));
    // Edges by where they end, nodes from the top: what is seen is then found by halving.
    view.nodes.sort((a, b) => a.y - b.y);
    this.tallest = Math.max(0, ...view.nodes.map((node) => node.height));
    for (const edge of view.edges) {
      const ys = (edge.points ?? []).map((p) => p[1]);
      [edge.top, edge.bottom] = [Math.min(...ys), Math.max(...ys)];
    }
    view.edges.sort((a, b) => a.top - b.top);
    this.longest = Math.max(0, ...view.edges.map((edge) => edge.bottom - edge.top));
    const xs = view.nodes.flatMap((node) => [node.x, node.x + node.width]);
    const ys = view.nodes.flatMap((node) => [node.y, node.y + node.height]);
    this.bounds = xs.length ? [xs, ys].map((list) => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))]) : [[0, 1], [0, 1]];
    this.draw();
  }

  fit() {
    const [[x0, x1], [y0, y1]] = this.bounds;
    const whole = Math.min((this.width - 60) / (x1 - x0 || 1), (this.height - 110) / (y1 - y0 || 1), 1.2);
    this.scale = Math.max(whole, 0.02);
    this.x = this.width / 2 - (this.scale * (x0 + x1)) / 2;
    this.y = 62 + Math.max(0, this.height - 110 - this.scale * (y1 - y0)) / 2 - this.scale * y0;
    this.draw();
  }

  /** As large as one can read, from the top; all of it where that fits. */
  open() {
    this.fit();
    if (this.scale >= 0.62) return;
    const [[x0, x1], [y0]] = this.bounds;
    this.scale = 0.85;
    this.x = this.width / 2 - (this.scale * (x0 + x1)) / 2;
    this.y = 62 - this.scale * y0;
    this.draw();
  }

  centre(node) {
    const [x, y] = [node.x + node.width / 2, node.y + node.height / 2];
    if (this.scale < 0.55) this.scale = 0.85;
    this.x = this.width / 2 - this.scale * x;
    this.y = this.height / 2 - this.scale * y;
    this.draw();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const scale = Math.min(3, Math.max(0.01, this.scale * factor));
    this.x = px - ((px - this.x) * scale) / this.scale;
    this.y = py - ((py - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.draw(true);
  }

  draw(moved = false) {
    if (!moved) this.far = null;
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.render();
    });
  }

  /** The first of `items`, sorted by `key`, that is not above. */
  static from(items, key, above) {
    let [low, high] = [0, items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle][key] < above) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  render() {
    const { pen, paint, scale } = this;
    if (!paint) return;
    const began = performance.now();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.fillStyle = paint.bg;
    pen.fillRect(0, 0, this.width, this.height);
    if (scale > 0.3) this.dots();
    if (scale < FAR && this.view.nodes.length > 2000) this.fromFar();
    else this.scene(pen, this.x, this.y, this.width, this.height);
    this.frames.push(performance.now() - began);
    if (this.frames.length > 600) this.frames.shift();
  }

  /** From far away thousands of nodes are in sight: a picture of them, larger than what is seen, is moved. */
  fromFar() {
    const [w, h] = [this.width / 2, this.height / 2];
    let far = this.far;
    if (!far || far.scale !== this.scale || Math.abs(this.x - far.x) > w || Math.abs(this.y - far.y) > h) {
      const canvas = new OffscreenCanvas(4 * w * this.ratio, 4 * h * this.ratio);
      far = this.far = { canvas, scale: this.scale, x: this.x, y: this.y };
      this.scene(canvas.getContext("2d"), this.x + w, this.y + h, 4 * w, 4 * h);
    }
    this.pen.drawImage(far.canvas, this.x - far.x - w, this.y - far.y - h, 4 * w, 4 * h);
  }

  scene(pen, x, y, width, height) {
    const { scale, view } = this;
    const own = this.pen;
    this.pen = pen;
    pen.setTransform(this.ratio * scale, 0, 0, this.ratio * scale, this.ratio * x, this.ratio * y);
    const [left, right] = [-x / scale, (width - x) / scale];
    const [top, bottom] = [-y / scale, (height - y) / scale];
    for (const group of view.groups) this.group(group);
    this.lines(top, bottom);
    this.drawn = 0;
    for (let i = Graph.from(view.nodes, "y", top - this.tallest); i < view.nodes.length && view.nodes[i].y < bottom; i++) {
      const node = view.nodes[i];
      if (node.x + node.width < left || node.x > right) continue;
      this.drawn++;
      if (scale < FAR) this.block(node);
      else this.card(node);
    }
    this.pen = own;
  }

  dots() {
    const { pen, paint } = this;
    const step = 28 * this.scale;
    pen.fillStyle = paint.grid;
    for (let x = this.x % step; x < this.width; x += step) for (let y = this.y % step; y < this.height; y += step) pen.fillRect(x, y, 1.5, 1.5);
  }

  group(group) {
    const { pen, paint } = this;
    pen.globalAlpha = 0.45;
    pen.fillStyle = paint.raised;
    this.box(group, 12);
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = paint.line;
    pen.lineWidth = 1;
    pen.stroke();
    if (this.scale < 0.2) return;
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillStyle = paint.muted;
    pen.fillText(`▾ ${group.title}`, group.x + 14, group.y + 21);
  }

  box(b, radius) {
    this.pen.beginPath();
    this.pen.roundRect(b.x, b.y, b.width, b.height, radius);
  }

  lines(top, bottom) {
    const { pen, paint, view, scale } = this;
    const hot = [];
    pen.strokeStyle = paint.edge;
    pen.lineWidth = Math.max(1.2, 0.5 / scale);
    pen.beginPath();
    const labelled = [];
    for (let i = Graph.from(view.edges, "top", top - this.longest); i < view.edges.length && view.edges[i].top < bottom; i++) {
      const edge = view.edges[i];
      if (edge.bottom < top || !edge.points?.length) continue;
      if (this.selected && (edge.from === this.selected.key || edge.to === this.selected.key) || edge === this.over) hot.push(edge);
      else this.path(edge.points);
      if (scale > 0.62) labelled.push(edge);
    }
    pen.stroke();
    if (hot.length) {
      pen.strokeStyle = paint.accent;
      pen.lineWidth = 2;
      pen.beginPath();
      for (const edge of hot) this.path(edge.points);
      pen.stroke();
    }
    if (scale > FAR) {
      for (const edge of [...labelled, ...hot]) this.arrow(edge, hot.includes(edge) ? paint.accent : paint.edge);
    }
  }

  path(points) {
    const { pen } = this;
    pen.moveTo(...points[0]);
    if (points.length === 2) {
      const [[ax, ay], [bx, by]] = points;
      if (Math.abs(ax - bx) < 1) pen.lineTo(bx, by);
      else pen.bezierCurveTo(ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by);
      return;
    }
    for (let i = 1; i < points.length - 1; i++) pen.arcTo(...points[i], ...points[i + 1], 7);
    pen.lineTo(...points.at(-1));
  }

  arrow(edge, colour) {
    const { pen } = this;
    const [x, y] = edge.points.at(-1);
    pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - 4, y - 7);
    pen.lineTo(x + 4, y - 7);
    pen.fill();
  }

  /** A node from far away. */
  block(node) {
    const { pen, paint } = this;
    pen.fillStyle = this.colours(node) ?? (node.kind < 0 ? paint.accent : KINDS[node.kind][1]);
    pen.fillRect(node.x, node.y, node.width, node.height);
    if (node === this.selected || this.hot.has(node.key)) {
      pen.strokeStyle = node === this.selected ? paint.text : paint.bad;
      pen.lineWidth = 3 / this.scale;
      pen.strokeRect(node.x, node.y, node.width, node.height);
    }
  }

  card(node) {
    const { pen, paint } = this;
    const colour = this.colours(node) ?? (node.kind < 0 ? paint.accent : KINDS[node.kind][1]);
    const many = node.ops.length > 1;
    if (many) {
      pen.fillStyle = paint.raised;
      pen.strokeStyle = paint.line;
      this.box({ x: node.x + 4, y: node.y + 4, width: node.width, height: node.height }, 9);
      pen.fill();
      pen.stroke();
    }
    this.box(node, 9);
    pen.fillStyle = paint.node;
    pen.fill();
    pen.save();
    pen.clip();
    pen.fillStyle = colour;
    pen.globalAlpha = 0.16;
    pen.fillRect(node.x, node.y, node.width, 25);
    pen.globalAlpha = 1;
    pen.fillRect(node.x, node.y, 4, node.height);
    pen.restore();
    const marked = this.hot.has(node.key);
    pen.strokeStyle = node === this.selected ? paint.accent : marked ? paint.bad : paint.line;
    pen.lineWidth = node === this.selected ? 2.5 : marked ? 2 : 1;
    this.box(node, 9);
    pen.stroke();
    pen.save();
    pen.beginPath();
    pen.rect(node.x, node.y, node.width - 6, node.height);
    pen.clip();
    pen.fillStyle = paint.text;
    pen.font = "600 13px system-ui, sans-serif";
    pen.fillText(node.title, node.x + 14, node.y + 17);
    pen.font = "11.5px system-ui, sans-serif";
    pen.fillStyle = paint.muted;
    node.lines.forEach((line, i) => pen.fillText(line, node.x + 14, node.y + 38 + 15 * i));
    pen.restore();
    if (node.facts?.histogram) bars(pen, node.facts, node.x + 14, node.y + node.height - 26, node.width - 28, 20, colour, paint.line);
  }

  at(px, py) {
    const [x, y] = [(px - this.x) / this.scale, (py - this.y) / this.scale];
    const inside = (b) => x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height;
    const { nodes, edges, groups } = this.view;
    for (let i = Graph.from(nodes, "y", y - this.tallest); i < nodes.length && nodes[i].y <= y; i++) if (inside(nodes[i])) return { node: nodes[i] };
    const near = 6 / this.scale;
    for (let i = Graph.from(edges, "top", y - this.longest - near); i < edges.length && edges[i].top <= y + near; i++) {
      const { points = [] } = edges[i];
      for (let k = 1; k < points.length; k++) if (distance(x, y, points[k - 1], points[k]) < near) return { edge: edges[i] };
    }
    const group = groups.filter(inside).at(-1);
    return group && y < group.y + 30 ? { group } : {};
  }

  listen() {
    const { canvas } = this;
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      start = { x: event.offsetX, y: event.offsetY, left: this.x, top: this.y, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (start) {
        const [dx, dy] = [event.offsetX - start.x, event.offsetY - start.y];
        if (Math.abs(dx) + Math.abs(dy) > 4) start.moved = true;
        if (!start.moved) return;
        canvas.classList.add("drag");
        this.move(start.left + dx - this.x, start.top + dy - this.y);
        return;
      }
      const found = this.at(event.offsetX, event.offsetY);
      if (found.edge !== this.over) this.draw();
      this.over = found.edge;
      canvas.style.cursor = found.node || found.edge || found.group ? "pointer" : "";
      this.hooks.over(found, event.offsetX, event.offsetY);
    });
    const end = (event) => {
      canvas.classList.remove("drag");
      if (start && !start.moved) this.hooks.click(this.at(event.offsetX, event.offsetY));
      start = null;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", () => (start = null));
    canvas.addEventListener("pointerleave", () => this.hooks.over({}, 0, 0));
    canvas.addEventListener("dblclick", (event) => this.hooks.open(this.at(event.offsetX, event.offsetY)));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || !event.shiftKey && Math.abs(event.deltaY) >= 50 && !event.deltaX) this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
      else this.move(-(event.deltaX || (event.shiftKey ? event.deltaY : 0)), event.shiftKey ? 0 : -event.deltaY);
    }, { passive: false });
  }
}

function distance(x, y, [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const t = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - ax - t * dx, y - ay - t * dy);
}

/** A histogram; the bar that holds zero is brighter where all others are of one side too. */
function bars(pen, facts, x, y, width, height, colour, line) {
  const most = Math.max(1, ...facts.histogram);
  const step = width / facts.histogram.length;
  pen.fillStyle = colour;
  facts.histogram.forEach((count, i) => {
    const tall = count ? Math.max(1.5, height * Math.sqrt(count / most)) : 0;
    pen.fillRect(x + i * step, y + height - tall, Math.max(0.5, step - 1), tall);
  });
  pen.fillStyle = line;
  pen.fillRect(x, y + height, width, 1);
}
