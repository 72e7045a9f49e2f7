// What is chosen, and all that follows it: stage, op, pane, colours, keys.

const MODES = ["kind", "error", "change", "zeros", "bits", "spikes"];

class App {
  constructor(record, layout) {
    Object.assign(this, { record, stage: record.stages[record.program], op: null, check: null, errors: new Map(), mode: "kind", closed: new Map(), constants: false, step: 0, compared: null, onlyChanges: false, views: new Map(), layout, onChoose: null });
    this.tab = "IR";
    this.graph = new Graph($("graph"), {
      over: (found, x, y) => this.tip(found, x, y),
      click: (found) => this.clicked(found),
      open: (found) => this.toggle(found.node?.key ?? found.group?.key),
    });
  }

  css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  async begin() {
    $("title").textContent = this.record.title;
    this.setTheme(window.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
    this.buildStages();
    this.buildTools();
    this.keys();
    await this.go(this.record.program, null);
    this.graph.open();
    document.body.dataset.ready = "true";
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.graph.theme();
    if (document.body.dataset.ready) this.renderPane();
  }

  // Stages.

  buildStages() {
    const nav = $("stages");
    let track = "";
    this.record.stages.forEach((stage, index) => {
      if (stage.track !== track) nav.append(el("span", "track", (track = stage.track)));
      else if (index) nav.append(el("span", "arrow", "›"));
      const before = this.record.stages[stage.before];
      const chip = el("button", "stage");
      chip.dataset.stage = index;
      const verdict = this.record.verdict(stage);
      if (verdict) chip.append(el("span", `mark ${verdict.state}`));
      if (verdict?.state === "bad") chip.classList.add("wrong");
      const change = before ? stage.ops.length - before.ops.length : 0;
      chip.append(el("span", "", stage.name), el("small", "", before && change ? `${change > 0 ? "+" : "−"}${Math.abs(change)}` : String(stage.ops.length)));
      chip.title = [stage.passes || stage.name, `${stage.ops.length} ops`, stage.not_run ? `not run: ${stage.not_run}` : "", verdict ? `${verdict.check.name}: ${verdict.check.agrees ? "agrees" : verdict.check.kind === "refusal" ? "refuses" : "differs"}` : "", stage.unchanged.length ? `then nothing changed by ${stage.unchanged.join(", ")}` : ""].filter(Boolean).join("\n").slice(0, 900);
      chip.addEventListener("click", () => this.go(index, null));
      nav.append(chip);
    });
  }

  /** Show a stage, and an op of it; `check` is what errors are of. */
  async go(index, op, check) {
    const stage = this.record.stages[index];
    const changed = stage !== this.stage || !this.graph.byKey;
    if (op !== null && !stage.ops[op]) op = null;
    const follow = changed && op === null && this.op !== null ? [...this.record.relation(this.stage.index, index).entries()].find(([, set]) => set.has(this.op))?.[0] ?? null : op;
    this.stage = stage;
    this.op = follow;
    for (const chip of document.querySelectorAll(".stage")) {
      chip.classList.toggle("on", Number(chip.dataset.stage) === index);
      if (Number(chip.dataset.stage) === index) chip.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    if (changed || check) this.setCheck(check ?? stage.checks.find((c) => !c.agrees) ?? stage.checks.at(-1) ?? null);
    if (changed) {
      if (Number.isInteger(this.compared) && this.compared === index) this.compared = null;
      await this.relayout();
      if (follow === null) this.graph.open();
      this.renderPane();
    }
    this.choose(this.op, true);
  }

  shut() {
    const { stage } = this;
    if (!this.closed.has(stage.index)) {
      stage.paths ??= layersOf(stage);
      const all = new Set(stage.paths.flat());
      const inner = [...all].filter((key) => key.startsWith("op:") && stage.ops[Number(key.slice(3))].parent >= 0);
      const seen = stage.ops.filter((op) => !op.stored).length;
      const outer = seen > 120 ? new Set(stage.paths.map((path) => path[0]).filter(Boolean)) : [];
      this.closed.set(stage.index, new Set([...inner, ...outer].filter((key) => all.has(key) && !(key.startsWith("op:") && stage.ops[Number(key.slice(3))].parent < 0))));
    }
    return this.closed.get(stage.index);
  }

  async relayout() {
    const { stage } = this;
    const closed = this.shut();
    const key = `${stage.index}|${this.constants}|${[...closed].sort().join()}`;
    if (!this.views.has(key)) {
      $("busy").hidden = false;
      const view = viewOf(stage, closed, this.constants, Graph.measure);
      this.views.set(key, this.layout.of(stage, view).catch((error) => {
        console.warn("laid out by rows: " + error.message);
        return rows(view);
      }));
    }
    const view = await this.views.get(key);
    if (stage !== this.stage) return;
    $("busy").hidden = true;
    this.graph.show(view);
    this.paint();
  }

  async toggle(key) {
    const { stage } = this;
    if (!key || !stage.paths.some((path) => path.includes(key))) return;
    const closed = this.shut();
    if (!closed.delete(key)) closed.add(key);
    await this.relayout();
    if (this.op !== null) this.choose(this.op, true);
  }

  // Choosing an op.

  async choose(n, jump = false) {
    this.op = n;
    if (n !== null && !this.graph.nodeOf.get(n) && !this.stage.ops[n].stored) {
      const closed = this.shut();
      this.stage.paths[n].forEach((key) => closed.delete(key));
      await this.relayout();
    }
    const node = n === null ? null : this.graph.nodeOf.get(n) ?? this.userNode(n);
    this.graph.selected = node ?? null;
    if (node && (jump || !this.onScreen(node))) this.graph.centre(node);
    this.graph.draw();
    inspect(this, $("inspector"));
    this.onChoose?.();
  }

  userNode(n) {
    const user = this.stage.ops[n].results.flatMap((v) => this.stage.users[v])[0];
    return user ? this.graph.nodeOf.get(user[0]) : null;
  }

  onScreen(node) {
    const { graph } = this;
    const [x, y] = [node.x * graph.scale + graph.x, node.y * graph.scale + graph.y];
    return x > 0 && y > 40 && x + node.width * graph.scale < graph.width && y + node.height * graph.scale < graph.height;
  }

  clicked({ node, edge, group }) {
    if (node?.argument !== undefined) return;
    if (node) this.choose(node.op ?? node.ops[0]);
    else if (edge) {
      const value = this.stage.values[edge.values[0]];
      if (!value.is_argument) this.choose(value.op);
    } else if (!group) this.choose(null);
  }

  tip(found, x, y) {
    const made = found.node || found.edge ? tipFor(this, found) : null;
    $("tip").hidden = !made;
    if (!made) return;
    $("tip").replaceChildren(made);
    $("tip").style.left = `${Math.min(x + 16, this.graph.width - 260)}px`;
    $("tip").style.top = `${Math.min(y + 14, this.graph.height - 120)}px`;
  }

  /** The ops of a layer that a table names, in the stage before targets. */
  named(name) {
    const stage = this.record.stages[this.record.program];
    const [found] = [stage.ops.findIndex((op) => op.place.name === name), ...stage.find(`name:${name.split(" ")[0]}`)].filter((n) => n >= 0);
    if (found !== undefined) this.go(stage.index, found);
  }

  // Colours.

  setCheck(check) {
    this.check = check;
    this.errors = this.stage.errorsOf(check);
    const select = $("against");
    select.replaceChildren();
    this.stage.checks.forEach((c, i) => select.append(new Option(`${c.kind === "pass" ? "the stage before" : c.name}${c.agrees ? "" : " ✗"}`, i)));
    select.parentElement.hidden = !this.stage.checks.length;
    if (check) select.value = this.stage.checks.indexOf(check);
    const first = check && !check.agrees ? check.first : null;
    $("first").hidden = first === null;
    if (first !== null) $("first").textContent = `first difference: ${this.stage.ops[first].name}`;
    if (check && !check.agrees) this.mode = "error";
    else if (this.mode === "error" && !this.errors.size) this.mode = "kind";
    $("mode").value = this.mode;
  }

  paint() {
    const { stage, graph, mode } = this;
    const heat = (share) => `hsl(${Math.round(150 - 150 * share)} 70% 52%)`;
    const each = {
      kind: () => null,
      error: (n) => {
        const row = this.errors.get(n);
        if (!row) return null;
        if (row.wrong) return this.css("bad");
        return heat(row.max_abs === 0 ? 0 : Math.min(0.6, Math.max(0.05, (Math.log10(magnitude(row)) + 8) / 8)));
      },
      change: (n) => (stage.before < 0 ? null : this.fresh.has(n) ? "#3ecf8e" : this.changed.has(n) ? "#f2b84b" : this.css("faint")),
      zeros: (n) => this.statistic(n, (facts) => `hsl(215 ${Math.round(20 + 75 * facts.zeros)}% ${Math.round(42 + 18 * facts.zeros)}%)`, "zeros"),
      bits: (n) => this.statistic(n, (facts) => heat(Math.min(1, Math.log2(Math.max(1, facts.bits)) / 6)), "bits"),
      spikes: (n) => {
        const raster = this.record.rasters.find((r) => r.op === n && stage.index === this.record.program);
        return raster ? `hsl(330 90% ${Math.round(28 + 42 * Math.min(1, (raster.counts[this.step] ?? 0) / Math.max(1, ...raster.counts)))}%)` : this.css("faint");
      },
    };
    if (mode === "change" && stage.before >= 0) {
      const before = this.record.stages[stage.before];
      this.fresh = new Set(stage.ops.flatMap((op, n) => ((op.origins ?? []).some((o) => before.ops[o].name === op.name) ? [] : [n])));
      this.changed = new Set(stage.ops.flatMap((op, n) => ((op.origins ?? []).some((o) => plain(before.text[before.ops[o].lines[0]] ?? "") === plain(stage.text[op.lines[0]] ?? "")) ? [] : [n])));
    }
    const rank = (n) => this.errors.get(n)?.wrong ?? false;
    graph.colours = (node) => {
      if (!node.ops.length) return null;
      const n = mode === "error" ? node.ops.find(rank) ?? node.ops.find((m) => this.errors.has(m)) ?? node.ops[0] : mode === "change" ? node.ops.find((m) => this.fresh?.has(m)) ?? node.ops[0] : node.op ?? node.ops[0];
      return each[mode](n);
    };
    graph.hot = new Set([this.check?.agrees ? null : this.check?.first].filter((n) => n !== null && n !== undefined).map((n) => graph.nodeOf?.get(n)?.key).filter(Boolean));
    this.legend();
    graph.draw();
  }

  statistic(n, colour, name) {
    const known = this.stage.values[this.stage.ops[n].results[0]]?.statistics;
    return known?.[name] === undefined ? this.css("faint") : colour(known);
  }

  legend() {
    const seen = new Set(this.stage.ops.map((_, n) => this.stage.kind(n)));
    const entries = {
      kind: KINDS.filter((_, i) => seen.has(i)).map(([name, colour]) => [colour, name]),
      error: [["hsl(150 70% 52%)", "equal"], ["hsl(60 70% 52%)", "rounding"], [this.css("bad"), "wrong"]],
      change: [["#3ecf8e", "new"], ["#f2b84b", "changed"], [this.css("faint"), "as before"]],
      zeros: [["hsl(215 20% 42%)", "no zeros"], ["hsl(215 95% 60%)", "zeros alone"]],
      bits: [["hsl(150 70% 52%)", "1 bit"], ["hsl(75 70% 52%)", "8"], ["hsl(25 70% 52%)", "32"], ["hsl(0 70% 52%)", "64"]],
      spikes: [["hsl(330 90% 28%)", "no spikes at this step"], ["hsl(330 90% 70%)", "most"]],
    }[this.mode];
    $("legend").replaceChildren(...entries.map(([colour, name]) => {
      const item = el("span");
      const dot = el("i");
      dot.style.background = colour;
      item.append(dot, name);
      return item;
    }));
  }

  buildTools() {
    for (const mode of MODES) {
      if (mode === "spikes" && !this.record.rasters.length) continue;
      if (mode === "error" && !this.record.stages.some((s) => s.checks.length)) continue;
      $("mode").append(new Option({ kind: "by kind", error: "by error", change: "by change", zeros: "by zeros", bits: "by bits", spikes: "by spikes" }[mode], mode));
    }
    $("mode").addEventListener("change", () => {
      this.mode = $("mode").value;
      this.paint();
    });
    $("against").addEventListener("change", () => {
      this.mode = "error";
      this.setCheck(this.stage.checks[Number($("against").value)]);
      this.paint();
    });
    $("first").addEventListener("click", () => this.choose(this.check.first, true));
    $("in").addEventListener("click", () => this.graph.zoom(1.25));
    $("out").addEventListener("click", () => this.graph.zoom(0.8));
    $("fit").addEventListener("click", () => this.graph.fit());
    $("constants").addEventListener("click", () => this.showConstants());
    $("groups").addEventListener("click", () => this.toggleAll());
    $("theme").addEventListener("click", () => this.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    $("help").addEventListener("click", () => this.help());
    const grip = $("grip");
    grip.addEventListener("pointerdown", (event) => {
      grip.setPointerCapture(event.pointerId);
      grip.onpointermove = (move) => {
        const share = Math.min(85, Math.max(15, (100 * move.clientX) / window.innerWidth));
        $("left").style.flexBasis = `${share}%`;
        $("right").style.flexBasis = `${100 - share}%`;
      };
      grip.onpointerup = () => (grip.onpointermove = null);
    });
    $("search").addEventListener("input", () => this.search());
  }

  async showConstants() {
    this.constants = !this.constants;
    $("constants").classList.toggle("on", this.constants);
    await this.relayout();
    this.choose(this.op);
  }

  async toggleAll() {
    const closed = this.shut();
    const all = [...new Set(this.stage.paths.map((path) => path.find((key) => key.startsWith("g:"))).filter(Boolean))];
    const open = all.some((key) => !closed.has(key));
    all.forEach((key) => (open ? closed.add(key) : closed.delete(key)));
    await this.relayout();
    this.graph.open();
  }

  // Panes.

  tabs() {
    const { record } = this;
    const found = ["IR"];
    if (record.files.some((file) => file.lines.length)) found.push("Source");
    found.push("Diff", "Checks");
    if (record.rasters.length) found.push("Spikes");
    if (record.tables.length) found.push("Costs");
    return found;
  }

  openTab(name) {
    this.tab = name;
    this.renderPane();
  }

  renderPane() {
    const wrong = this.record.stages.flatMap((s) => s.checks).filter((c) => !c.agrees).length;
    $("tabs").replaceChildren(...this.tabs().map((name) => {
      const made = el("button", name === this.tab ? "on" : "", name);
      made.setAttribute("role", "tab");
      made.setAttribute("aria-selected", String(name === this.tab));
      if (name === "Checks" && wrong) made.append(el("span", "chip bad", String(wrong)));
      made.addEventListener("click", () => this.openTab(name));
      return made;
    }));
    // A new pane, so that what listened to the old one is gone with it.
    const pane = el("div");
    pane.id = "pane";
    $("pane").replaceWith(pane);
    this.onChoose = null;
    ({ IR: () => this.textPane(pane), Source: () => this.sourcePane(pane), Diff: () => diffPane(this, pane), Checks: () => checksPane(this, pane), Spikes: () => spikesPane(this, pane), Costs: () => tablePane(this, pane) })[this.tab]();
    inspect(this, $("inspector"));
  }

  textPane(pane) {
    const { stage } = this;
    const inner = el("div");
    pane.append(inner);
    const rows = stage.text.map((text, i) => ({ text, number: i + 1, line: i }));
    if (stage.left_out) rows.push({ text: `// and ${number(stage.left_out)} more ops, which are not on this page` });
    const list = new Lines(inner, pane, rows, "mlir", {
      click: (row) => stage.byLine[row.line] !== undefined && this.choose(stage.byLine[row.line]),
      classOf: (row) => {
        const n = stage.byLine[row.line];
        if (n === undefined) return "";
        return [n === this.op ? "on" : "", this.errors.get(n)?.wrong && row.line === stage.ops[n].lines[0] ? "bad" : ""].join(" ");
      },
    });
    this.onChoose = () => (this.op === null ? list.render() : list.reveal(stage.ops[this.op].lines[0]));
    this.onChoose();
  }

  openSource(file, line) {
    this.tab = "Source";
    this.file = file;
    this.renderPane();
    this.onChoose?.(line);
  }

  sourcePane(pane) {
    const { record, stage } = this;
    const shown = record.files.map((file, i) => [file, i]).filter(([file]) => file.lines.length);
    const place = this.op === null ? {} : stage.ops[this.op].place;
    const wanted = place.file ?? this.file;
    const [file, index] = shown.find(([, i]) => i === wanted) ?? shown[0];
    this.file = index;
    const bar = el("div", "bar");
    const select = el("select");
    shown.forEach(([f, i]) => select.append(new Option(f.name.split("/").slice(-2).join("/"), i)));
    select.value = index;
    select.addEventListener("change", () => {
      this.file = Number(select.value);
      this.op = null;
      this.renderPane();
    });
    const inner = el("div");
    bar.append(select, el("span", "", `${file.lines.length} ${file.name.endsWith(".onnx") ? "nodes" : "lines"}`));
    pane.append(bar, inner);
    const ops = (line) => stage.from(index, line);
    const rows = file.lines.map((text, i) => ({ text, number: i + 1, line: i + 1 }));
    const list = new Lines(inner, pane, rows, file.name.endsWith(".mlir") ? "mlir" : "tri", {
      click: (row) => {
        const here = ops(row.line).filter((n) => !stage.ops[n].stored).concat(ops(row.line));
        if (here.length) this.choose(here[(here.indexOf(this.op) + 1) % here.length]);
      },
      classOf: (row) => {
        const now = this.op === null ? null : stage.ops[this.op].place;
        return [now?.file === index && now.line === row.line ? "on" : "", ops(row.line).length ? "near" : ""].join(" ");
      },
    });
    this.onChoose = (line) => {
      const now = this.op === null ? null : stage.ops[this.op].place;
      const at = line ?? (now?.file === index ? now.line : null);
      if (at) list.reveal(at - 1);
      else list.render();
    };
    this.onChoose();
  }

  // Search.

  search() {
    const text = $("search").value;
    const began = performance.now();
    this.hits = this.stage.find(text);
    this.hit = 0;
    const list = $("hits");
    list.hidden = !text.trim();
    list.replaceChildren(...this.hits.slice(0, 60).map((n, i) => {
      const op = this.stage.ops[n];
      const item = el("li", i === 0 ? "on" : "", "");
      const value = this.stage.values[op.results[0]];
      item.append(el("span", "", op.name), el("small", "", [op.place.name, value ? shapeText(value) : ""].filter(Boolean).join(" · ")));
      item.addEventListener("mousedown", (event) => {
        event.preventDefault();
        this.choose(n, true);
        list.hidden = true;
      });
      return item;
    }));
    if (text.trim() && !this.hits.length) list.append(el("li", "none", "nothing in this stage"));
    else if (this.hits.length > 60) list.append(el("li", "none", `and ${this.hits.length - 60} more`));
    this.searched = performance.now() - began;
  }

  step1(by) {
    if (!this.hits?.length) return;
    this.hit = (this.hit + by + this.hits.length) % this.hits.length;
    [...$("hits").children].forEach((item, i) => item.classList.toggle("on", i === this.hit));
    this.choose(this.hits[this.hit], true);
  }

  // Keys.

  keys() {
    const next = (by) => {
      const { ops } = this.stage;
      let n = this.op === null ? (by > 0 ? -1 : ops.length) : this.op;
      do n += by; while (ops[n] && (!this.constants && ops[n].stored || !this.graph.nodeOf.get(n)));
      if (ops[n]) this.choose(n);
    };
    const stage = (by) => {
      const index = this.stage.index + by;
      if (this.record.stages[index]) this.go(index, null);
    };
    const actions = {
      "/": () => $("search").select(), f: () => this.graph.fit(), "+": () => this.graph.zoom(1.25), "=": () => this.graph.zoom(1.25), "-": () => this.graph.zoom(0.8),
      c: () => this.showConstants(), g: () => this.toggleAll(), t: () => $("theme").click(), "?": () => this.help(), "]": () => stage(1), "[": () => stage(-1),
      j: () => next(1), k: () => next(-1), ArrowDown: () => next(1), ArrowUp: () => next(-1), e: () => this.check?.first != null && this.choose(this.check.first, true),
      d: () => this.openTab("Diff"), i: () => this.openTab("IR"), s: () => this.tabs().includes("Source") && this.openTab("Source"), Escape: () => this.choose(null),
      Enter: () => this.op !== null && this.toggle(this.graph.nodeOf.get(this.op)?.key),
    };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target === $("search")) {
        if (event.key === "Enter") this.step1(this.started === $("search").value ? (event.shiftKey ? -1 : 1) : 0);
        if (event.key === "Enter") this.started = $("search").value;
        if (event.key === "ArrowDown") this.step1(1);
        if (event.key === "ArrowUp") this.step1(-1);
        if (event.key === "Escape") {
          $("hits").hidden = true;
          $("graph").focus();
        }
        return;
      }
      if (/^(INPUT|SELECT)$/.test(event.target.tagName) || event.key === "Enter" && event.target.tagName !== "CANVAS" && event.target !== document.body) return;
      const action = actions[event.key];
      if (!action || $("keys").open) return;
      event.preventDefault();
      action();
    });
    $("search").addEventListener("blur", () => ($("hits").hidden = true));
    $("search").addEventListener("focus", () => $("search").value && this.search());
  }

  help() {
    const rows = [["/", "search; shape:1x10 type:i8 attr:stride name:conv look in one place"], ["[ ]", "the stage before, the next one"], ["j k ↓ ↑", "the next op, the one before"], ["e", "the first difference"], ["d i s", "Diff, IR, Source"], ["c g", "constants; layers open or closed"], ["f + −", "all of it, nearer, farther"], ["t", "dark or light"], ["Esc", "nothing chosen"]];
    const table = el("table");
    rows.forEach(([keys, text]) => {
      const row = el("tr");
      const cell = el("td");
      keys.split(" ").forEach((key) => cell.append(el("kbd", "", key), " "));
      row.append(cell, el("td", "", text));
      table.append(row);
    });
    const note = el("p", "muted", `${this.record.tool}. Drag to move, wheel to zoom, double click opens and closes a layer. Layout: elkjs 0.12.1, Eclipse Public License 2.0.`);
    $("keys").replaceChildren(el("h2", "", "Keys"), table, note);
    $("keys").showModal();
    $("keys").addEventListener("click", () => $("keys").close(), { once: true });
  }
}

const layout = new Layout();
layout.worker(); // begins while the record is unpacked
unpacked("record").then((text) => {
  window.explorer = new App(new RecordModel(JSON.parse(text)), layout);
  return window.explorer.begin();
});
