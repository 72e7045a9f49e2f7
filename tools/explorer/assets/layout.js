// Which nodes are seen, and where they stand: elkjs in a worker, or rows by depth for large graphs.
// Not here: drawing.

const LARGE = 500; // nodes beyond which rows by depth are quick and elkjs is not

/** The layers of a stage as a tree of paths, without those that hold one thing or everything. */
function layersOf(stage) {
  const paths = stage.ops.map(() => null);
  const of = (n) => {
    if (paths[n]) return paths[n];
    const op = stage.ops[n];
    const parent = op.parent >= 0 ? stage.ops[op.parent] : null;
    const inside = parent ? of(op.parent) : [];
    if (!parent || /(^|\.)(func|module)$/.test(parent.name) && parent.parent < 0) {
      return (paths[n] = [...(parent && stage.roots > 1 ? [`op:${op.parent}`] : []), ...op.group.map((_, i) => "g:" + op.group.slice(0, i + 1).join("\n"))]);
    }
    return (paths[n] = [...inside, `op:${op.parent}`]);
  };
  stage.roots = stage.ops.filter((op) => op.parent < 0 && stage.ops.some((o) => o.parent >= 0 && stage.ops[o.parent] === op)).length;
  stage.ops.forEach((_, n) => of(n));
  const members = new Map();
  paths.forEach((path, n) => {
    if (!stage.ops[n].stored) path.forEach((key, depth) => {
      const known = members.get(key) ?? { count: 0, below: new Set() };
      known.count++;
      known.below.add(path[depth + 1] ?? `#${n}`);
      members.set(key, known);
    });
  });
  const useful = (key) => key.startsWith("op:") || (members.get(key)?.below.size ?? 0) > 1;
  return paths.map((path) => path.filter(useful));
}

/**
 * The nodes and edges that are seen.
 * closed: layers shown as one node; constants: whether stored ops are nodes or parts of their users.
 */
function viewOf(stage, closed, constants, measure) {
  const paths = (stage.paths ??= layersOf(stage));
  const containers = new Set(paths.flat());
  const nodes = new Map();
  const holder = stage.ops.map((op, n) => {
    const shut = paths[n].find((key) => closed.has(key));
    if (shut) return shut;
    if (containers.has(`op:${n}`) && !closed.has(`op:${n}`)) return null;
    if (op.parent < 0 && stage.ops.some((o) => o.parent === n)) return null;
    if (op.stored && !constants) return null;
    return `op:${n}`;
  });
  stage.ops.forEach((op, n) => {
    const key = holder[n];
    if (key === null) return;
    if (!nodes.has(key)) {
      const whole = key.startsWith("g:") || Number(key.slice(3)) !== n;
      const self = key.startsWith("op:") ? Number(key.slice(3)) : n;
      const at = paths[n].indexOf(key);
      nodes.set(key, { key, op: key.startsWith("op:") ? self : null, ops: [], within: whole && at >= 0 ? paths[n].slice(0, at) : paths[n].filter((p) => p !== key), stored: [] });
    }
    nodes.get(key).ops.push(n);
  });
  stage.values.forEach((value, v) => {
    const parent = stage.ops[value.op];
    if (value.is_argument && parent && parent.parent < 0 && stage.users[v].length) {
      nodes.set(`arg:${v}`, { key: `arg:${v}`, op: null, argument: v, ops: [], within: [], stored: [] });
    }
  });
  const edges = new Map();
  stage.values.forEach((value, v) => {
    const from = value.is_argument ? `arg:${v}` : holder[value.op];
    for (const [user] of stage.users[v]) {
      const to = holder[user];
      if (!to || from === to) continue;
      if (from && nodes.has(from)) {
        const key = `${from}>${to}`;
        if (!edges.has(key)) edges.set(key, { from, to, values: [] });
        if (!edges.get(key).values.includes(v)) edges.get(key).values.push(v);
      } else if (stage.ops[value.op]?.stored) {
        nodes.get(to)?.stored.push(v);
      }
    }
  });
  for (const node of nodes.values()) Object.assign(node, faceOf(stage, node, measure));
  return { nodes: [...nodes.values()], edges: [...edges.values()].filter((e) => nodes.has(e.to)), groups: [] };
}

function titleOf(stage, key) {
  if (key.startsWith("g:")) return key.slice(2).split("\n").at(-1);
  const name = stage.ops[Number(key.slice(3))].attributes.sym_name;
  return name ? `@${name}` : stage.label(Number(key.slice(3)));
}

/** What a node says, and its size. */
function faceOf(stage, node, measure) {
  let title, lines, facts = null, kind = 7;
  if (node.argument !== undefined) {
    const value = stage.values[node.argument];
    title = value.name;
    lines = [shapeText(value)];
    facts = value.statistics;
    kind = -1;
  } else if (node.op !== null && node.ops.length === 1) {
    const op = stage.ops[node.op];
    const value = stage.values[op.results[0]];
    title = stage.label(node.op);
    const called = op.place.name || op.group.join(".") || (op.stored ? op.attributes.key ?? "" : "");
    lines = [called, value ? shapeText(value) : ""].filter(Boolean);
    if (node.stored.length) lines.splice(called ? 1 : 0, 0, node.stored.map((v) => `◇ ${shapeText(stage.values[v])}`).slice(0, 2).join("  ") + (node.stored.length > 2 ? ` +${node.stored.length - 2}` : ""));
    facts = value?.statistics;
    kind = stage.kind(node.op);
  } else {
    title = titleOf(stage, node.key);
    lines = [`${node.ops.filter((n) => !stage.ops[n].stored).length} ops`];
    kind = Math.min(kind, ...node.ops.filter((n) => !stage.ops[n].stored).map((n) => stage.kind(n)));
  }
  const bars = facts?.histogram ? 22 : 0;
  const width = Math.min(260, Math.max(96, ...[measure(title, true), ...lines.map((line) => measure(line, false))].map((w) => w + 30)));
  return { title, lines, facts, kind, width, height: 26 + 15 * lines.length + bars + (bars ? 4 : 2) };
}

/** Rows by depth: each op below all that it takes, above the middle of its users. */
function rows(view) {
  const at = new Map(view.nodes.map((node, i) => [node.key, i]));
  const takes = view.nodes.map(() => []);
  for (const edge of view.edges) {
    const [a, b] = [at.get(edge.from), at.get(edge.to)];
    if (a !== undefined) takes[b].push(a);
  }
  const depth = view.nodes.map(() => 0);
  const order = view.nodes.map((_, i) => i).sort((a, b) => (view.nodes[a].argument !== undefined ? -1 : view.nodes[a].ops[0]) - (view.nodes[b].argument !== undefined ? -1 : view.nodes[b].ops[0]));
  for (const i of order) for (const a of takes[i]) depth[i] = Math.max(depth[i], depth[a] + 1);
  const levels = [];
  for (const i of order) (levels[depth[i]] ??= []).push(i);
  let y = 0;
  for (const level of levels.filter(Boolean)) {
    const wish = new Map(level.map((i) => [i, takes[i].length ? takes[i].reduce((sum, a) => sum + view.nodes[a].x + view.nodes[a].width / 2, 0) / takes[i].length : 0]));
    level.sort((a, b) => wish.get(a) - wish.get(b));
    let x = -Infinity;
    for (const i of level) {
      const node = view.nodes[i];
      node.x = x = Math.max(x, wish.get(i) - node.width / 2);
      node.y = y;
      x += node.width + 28;
    }
    y += Math.max(...level.map((i) => view.nodes[i].height)) + 38;
  }
  for (const edge of view.edges) {
    const [a, b] = [view.nodes[at.get(edge.from)], view.nodes[at.get(edge.to)]];
    edge.points = [[a.x + a.width / 2, a.y + a.height], [b.x + b.width / 2, b.y]];
  }
  return view;
}

class Layout {
  constructor() {
    this.waiting = new Map();
    this.next = 1;
  }

  /** elkjs, begun once it is needed. */
  async worker() {
    this.started ??= unpacked("layout").then((text) => {
      const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => {
        const [done, failed] = this.waiting.get(data.id) ?? [];
        this.waiting.delete(data.id);
        if (data.error) failed?.(new Error(data.error.message ?? String(data.error)));
        else done?.(data.data);
      };
      worker.postMessage({ id: 0, cmd: "register", algorithms: ["layered"] });
      return worker;
    });
    return this.started;
  }

  async ask(graph) {
    const worker = await this.worker();
    const id = this.next++;
    return new Promise((done, failed) => {
      this.waiting.set(id, [done, failed]);
      worker.postMessage({ id, cmd: "layout", graph, layoutOptions: {}, options: {} });
    });
  }

  /** A view with a place for each node, and points for each edge. */
  async of(stage, view) {
    if (view.nodes.length > LARGE) return rows(view);
    const root = { id: "root", children: [], edges: [], layoutOptions: {
      "elk.algorithm": "layered", "elk.direction": "DOWN", "elk.edgeRouting": "ORTHOGONAL",
      "elk.hierarchyHandling": "INCLUDE_CHILDREN", "elk.json.shapeCoords": "ROOT", "elk.json.edgeCoords": "ROOT",
      "elk.layered.spacing.nodeNodeBetweenLayers": "34", "elk.spacing.nodeNode": "26", "elk.spacing.edgeNode": "14",
      "elk.layered.nodePlacement.strategy": view.nodes.length > 300 ? "SIMPLE" : "BRANDES_KOEPF",
      "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED", "elk.layered.thoroughness": view.nodes.length > 150 ? "2" : "7",
      "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
    } };
    const boxes = new Map([["", root]]);
    const boxOf = (path) => {
      const key = path.join("\0");
      if (!boxes.has(key)) {
        const box = { id: `box${boxes.size}`, children: [], key: path.at(-1), layoutOptions: { "elk.padding": "[top=34,left=16,bottom=16,right=16]" } };
        boxes.set(key, box);
        boxOf(path.slice(0, -1)).children.push(box);
      }
      return boxes.get(key);
    };
    view.nodes.forEach((node, i) => boxOf(node.within).children.push({ id: `n${i}`, width: node.width, height: node.height }));
    const at = new Map(view.nodes.map((node, i) => [node.key, i]));
    view.edges.forEach((edge, i) => root.edges.push({ id: `e${i}`, sources: [`n${at.get(edge.from)}`], targets: [`n${at.get(edge.to)}`] }));
    const placed = await this.ask(root);
    const visit = (box) => {
      for (const child of box.children ?? []) {
        if (child.id.startsWith("n")) Object.assign(view.nodes[Number(child.id.slice(1))], { x: child.x, y: child.y });
        else {
          view.groups.push({ key: child.key, title: titleOf(stage, child.key), x: child.x, y: child.y, width: child.width, height: child.height });
          visit(child);
        }
      }
    };
    visit(placed);
    for (const edge of placed.edges) {
      view.edges[Number(edge.id.slice(1))].points = (edge.sections ?? []).flatMap((s) => [s.startPoint, ...(s.bendPoints ?? []), s.endPoint]).map((p) => [p.x, p.y]);
    }
    return view;
  }
}
