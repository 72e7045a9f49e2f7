// The record, and what follows from it: users of values, the ways of ops between stages, search.
// Not here: anything that is seen.

const $ = (id) => document.getElementById(id);

/** An element with text alone: nothing of a record is ever parsed as HTML. */
function el(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

async function unpacked(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const KINDS = [
  ["product", "#5b8cff", /(conv(?!er)|matmul|linear|gemm|\bdot|contract|adder_graph|einsum)/],
  ["neurons", "#ff6fb5", /^spike\./],
  ["quantised", "#3ecf8e", /(quant|ternar|pack|rescale|cast|convert|round)/],
  ["normal", "#b388ff", /(norm|mean|reduce|pool|sum|variance)/],
  ["activation", "#f2b84b", /(relu|sigmoid|tanh|gelu|softmax|silu|swish|elu|threshold|clip|clamp|sign|\.exp(2|m1)?$|erf)/],
  ["shape", "#45c4d6", /(shape|transpose|flatten|pad|concat|slice|gather|expand|squeeze|broadcast|split|tile|dim$)/],
  ["stored", "#7d8aa0", /(parameter|constant)/],
  ["other", "#95a1b5", /./],
];

function kindOf(name) {
  const base = name.replace(/^ternary\./, ".");
  return KINDS.findIndex(([, , pattern]) => pattern.test(base));
}

function number(value) {
  if (typeof value !== "number") return String(value ?? "");
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(+value.toPrecision(4)) : value.toExponential(2);
}

const percent = (share) => `${+(100 * share).toPrecision(3)} %`;

function shapeText(value) {
  if (!value.shape) return value.type.length > 30 ? value.type.slice(0, 29) + "…" : value.type;
  const sizes = value.shape.map((size) => (size < 0 ? "?" : size)).join("×");
  return sizes ? `${sizes} ${value.element}` : value.element;
}

function rangeText(facts) {
  if (!facts || facts.min === undefined) return "";
  return `${number(facts.min)} … ${number(facts.max)} · ${percent(facts.zeros)} zeros · ${facts.bits} bit`;
}

/** A stage with what is asked of it often. */
class Stage {
  constructor(data, index) {
    Object.assign(this, data);
    this.index = index;
    this.title = this.track ? `${this.track}/${this.name}` : this.name;
  }

  /** For each value the ops that take it, with the positions. */
  get users() {
    if (!this.knownUsers) {
      this.knownUsers = this.values.map(() => []);
      this.ops.forEach((op, n) => op.operands.forEach((v, position) => this.knownUsers[v]?.push([n, position])));
    }
    return this.knownUsers;
  }

  /** For each line the innermost op on it. */
  get byLine() {
    if (!this.knownLines) {
      this.knownLines = [];
      this.ops.forEach((op, n) => {
        for (let line = op.lines[0]; line <= op.lines[1]; line++) this.knownLines[line] = n;
      });
    }
    return this.knownLines;
  }

  /** The ops that come from a line of a file. */
  from(file, line) {
    if (!this.knownSources) {
      this.knownSources = new Map();
      this.ops.forEach(({ place }, n) => {
        const key = `${place.file}:${place.line}`;
        if (!this.knownSources.has(key)) this.knownSources.set(key, []);
        this.knownSources.get(key).push(n);
      });
    }
    return this.knownSources.get(`${file}:${line}`) ?? [];
  }

  kind(n) {
    return (this.ops[n].kind ??= kindOf(this.ops[n].name));
  }

  label(n) {
    const { name } = this.ops[n];
    return name.slice(name.indexOf(".") + 1);
  }

  /** What a search looks through, for each op, in small letters. */
  get hay() {
    this.cached ??= this.ops.map((op) => {
      const values = [...op.results, ...op.operands].map((v) => this.values[v]).filter(Boolean);
      return {
        name: [op.name, op.place.name ?? "", op.group.join("."), ...op.results.map((v) => "%" + (this.values[v]?.name ?? ""))].join(" ").toLowerCase(),
        shape: values.map((v) => (v.shape ? v.shape.map((s) => (s < 0 ? "?" : s)).join("x") : "")).join(" "),
        type: values.map((v) => v.type).join(" ").toLowerCase(),
        attr: Object.entries(op.attributes).map(([k, v]) => `${k}=${v}`).join(" ").toLowerCase(),
      };
    });
    return this.cached;
  }

  /** The numbers of ops that have every word; `shape:`, `type:`, `attr:` and `name:` look there alone. */
  find(text) {
    const words = text.toLowerCase().replaceAll("×", "x").split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const tests = words.map((word) => {
      const [, field, rest] = word.match(/^(name|shape|type|attr):(.*)$/) ?? [];
      if (field) return (hay) => hay[field].includes(rest);
      return (hay) => hay.name.includes(word) || hay.type.includes(word) || hay.shape.includes(word) || hay.attr.includes(word);
    });
    const found = [];
    this.hay.forEach((hay, n) => tests.every((test) => test(hay)) && found.push(n));
    return found;
  }

  errorsOf(check) {
    const found = new Map();
    for (const [v, row] of Object.entries(check?.values ?? {})) {
      const op = this.values[v]?.op;
      if (op === undefined || this.values[v].is_argument) continue;
      const known = found.get(op);
      if (!known || row.wrong > known.wrong || magnitude(row) > magnitude(known)) found.set(op, row);
    }
    return found;
  }
}

const magnitude = (row) => (row.relative === "inf" ? Infinity : row.relative);

class RecordModel {
  constructor(data) {
    Object.assign(this, data);
    this.stages = data.stages.map((stage, index) => new Stage(stage, index));
  }

  /** For each op of stage `to` the ops of stage `from` that it comes from or that come from it. */
  relation(from, to) {
    const up = [];
    for (let s = to; s >= 0; s = this.stages[s].before) up.push(s);
    const down = [];
    let common = from;
    while (common >= 0 && !up.includes(common)) {
      down.push(common);
      common = this.stages[common].before;
    }
    let now = this.stages[to].ops.map((_, n) => new Set([n]));
    for (let s = to; s !== common && s >= 0; s = this.stages[s].before) {
      const { ops } = this.stages[s];
      now = now.map((set) => new Set([...set].flatMap((n) => ops[n].origins ?? [])));
    }
    for (const s of down.reverse()) {
      const heirs = new Map();
      this.stages[s].ops.forEach((op, n) => (op.origins ?? []).forEach((o) => heirs.set(o, [...(heirs.get(o) ?? []), n])));
      now = now.map((set) => new Set([...set].flatMap((n) => heirs.get(n) ?? [])));
    }
    return now;
  }

  /** The check by which a stage is judged at a glance: the worst one. */
  verdict(stage) {
    const checks = stage.checks.filter((check) => !check.agrees || Object.keys(check.values).length);
    if (!checks.length) return null;
    const bad = stage.checks.find((check) => !check.agrees);
    if (bad) return { state: "bad", check: bad };
    return { state: stage.checks.some((c) => c.kind === "pass" && stage.approximate) ? "meant" : "good", check: checks[0] };
  }
}
