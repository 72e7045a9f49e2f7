// The panes at the right: what is known of an op, stages side by side, spikes, costs, checks.
// Not here: which of them is open (main.js).

function link(text, action) {
  const made = el("a", "link", text);
  made.tabIndex = 0;
  made.addEventListener("click", action);
  made.addEventListener("keydown", (event) => event.key === "Enter" && action());
  return made;
}

function facts(rows) {
  const list = el("dl", "facts");
  for (const [name, value] of rows) {
    list.append(el("dt", "", name));
    const cell = el("dd");
    cell.append(value);
    list.append(cell);
  }
  return list;
}

function sharp(width, height) {
  const canvas = el("canvas");
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return [canvas, pen];
}

function valueRow(app, stage, v, note) {
  const value = stage.values[v];
  const row = el("div", "value");
  const [canvas, pen] = sharp(110, 34);
  if (value.statistics?.histogram) bars(pen, value.statistics, 0, 2, 110, 30, app.css("accent"), app.css("line"));
  row.append(canvas);
  const text = el("div");
  const head = el("div");
  head.append(el("code", "", `%${value.name}`), " ", el("span", "chip", shapeText(value)));
  text.append(head);
  const known = rangeText(value.statistics);
  if (known) text.append(el("div", "m", known + (value.statistics.not_finite ? ` · ${value.statistics.not_finite} not finite` : "")));
  if (note) text.append(note);
  row.append(text);
  return row;
}

function errorText(row) {
  const share = row.relative === "inf" ? ", without end" : row.relative > 1e-5 ? `, ${percent(row.relative)} of the largest` : "";
  return `${row.wrong ? "wrong" : "differs"} by ${number(row.max_abs)}${share}`;
}

/** What is known of one op. */
function inspect(app, host) {
  const { stage, op: n } = app;
  host.replaceChildren();
  if (n === null) {
    host.append(el("div", "muted", app.record.note && !stage.checks.length ? `Nothing was run: ${app.record.note}` : "Choose an op in the graph or a line of the text."));
    return;
  }
  const op = stage.ops[n];
  const head = el("h2", "", op.name);
  const swatch = el("i", "chip", KINDS[stage.kind(n)][0]);
  swatch.style.color = KINDS[stage.kind(n)][1];
  head.append(swatch);
  host.append(head);
  const rows = [];
  const place = op.place;
  if (place.name || place.file !== undefined) {
    const file = app.record.files[place.file];
    const where = file ? `${file.name.split("/").at(-1)}:${place.line}` : "";
    const text = [place.name, where].filter(Boolean).join(" · ");
    if (text) rows.push(["from", file ? link(text, () => app.openSource(place.file, place.line)) : text]);
  }
  if (stage.before >= 0) {
    const before = app.record.stages[stage.before];
    const list = el("span");
    (op.origins ?? []).slice(0, 12).forEach((o, i) => list.append(i ? ", " : "", link(before.ops[o].name, () => app.go(before.index, o))));
    rows.push([`in ${before.title}`, (op.origins ?? []).length ? list : el("span", "chip good", "new")]);
  }
  app.record.stages.filter((later) => later.before === stage.index).forEach((later) => {
    const heirs = later.ops.map((o, i) => ((o.origins ?? []).includes(n) ? i : -1)).filter((i) => i >= 0);
    const list = el("span");
    heirs.slice(0, 8).forEach((h, i) => list.append(i ? ", " : "", link(later.ops[h].name, () => app.go(later.index, h))));
    if (heirs.length > 8) list.append(` and ${heirs.length - 8} more`);
    rows.push([`in ${later.title}`, heirs.length ? list : el("span", "chip bad", "gone")]);
  });
  Object.entries(op.attributes).forEach(([name, value]) => rows.push([name, value.replace(/^array<\w+: ?(.*)>$/, "[$1]").replace(/ : [iuf]\d+$/, "")]));
  host.append(facts(rows));
  const wrongs = (v) => {
    const made = el("div");
    stage.checks.forEach((check) => {
      const row = check.values[v];
      if (row && (row.wrong || row.max_abs > 0)) made.append(el("span", row.wrong ? "chip bad" : "chip", `${check.name}: ${errorText(row)}`), " ");
    });
    return made.childNodes.length ? made : null;
  };
  if (op.results.length) host.append(el("h3", "", "gives"), ...op.results.slice(0, 8).map((v) => valueRow(app, stage, v, wrongs(v))));
  if (op.operands.length) {
    host.append(el("h3", "", "takes"));
    for (const v of op.operands.slice(0, 12)) {
      const value = stage.values[v];
      if (!value) continue;
      const from = value.op >= 0 && !value.is_argument ? link(stage.ops[value.op].name, () => app.choose(value.op)) : null;
      host.append(valueRow(app, stage, v, from));
    }
  }
}

/** Where a value is pointed at in the graph. */
function tipFor(app, found) {
  const { stage } = app;
  const made = el("div");
  const say = (v) => {
    const value = stage.values[v];
    made.append(el("b", "", shapeText(value)), el("div", "muted", `%${value.name}`));
    if (value.statistics?.histogram) {
      const [canvas, pen] = sharp(220, 44);
      bars(pen, value.statistics, 0, 2, 220, 38, app.css("accent"), app.css("line"));
      made.append(canvas, el("div", "", rangeText(value.statistics)));
    }
  };
  if (found.edge) found.edge.values.slice(0, 3).forEach(say);
  else if (found.node?.argument !== undefined) say(found.node.argument);
  else if (found.node && found.node.ops.length === 1) {
    const op = stage.ops[found.node.ops[0]];
    made.append(el("b", "", op.name));
    if (op.place.name) made.append(el("div", "muted", op.place.name));
    const row = app.errors.get(found.node.ops[0]);
    if (row) made.append(el("div", "", errorText(row)));
    op.results.slice(0, 1).forEach((v) => made.append(el("div", "", shapeText(stage.values[v])), el("div", "muted", rangeText(stage.values[v].statistics))));
  } else if (found.node) made.append(el("b", "", found.node.title), el("div", "muted", `${found.node.lines[0]} · double click opens`));
  else return null;
  return made;
}

function diffPane(app, host) {
  const { record, stage } = app;
  const bar = el("div", "bar");
  const select = el("select");
  record.stages.forEach((other) => other !== stage && select.append(new Option(other.title, other.index)));
  const other = record.stages[app.compared ?? (stage.before >= 0 ? stage.before : record.stages.find((s) => s !== stage)?.index)] ?? null;
  if (!other) {
    host.append(el("div", "pad muted", "There is one stage alone; give passes with -p or a target with -t."));
    return;
  }
  select.value = other.index;
  select.addEventListener("change", () => {
    app.compared = Number(select.value);
    app.renderPane();
  });
  const relation = record.relation(other.index, stage.index);
  const pairs = aligned(other, stage, relation);
  const count = (kind) => pairs.filter((row) => row.change === kind).length;
  bar.append(select, "→", el("b", "", stage.title), el("span", "plus", `+${count("add")}`), el("span", "minus", `−${count("del")}`), el("span", "tilde", `~${count("mod")}`));
  const only = el("label");
  const box = el("input");
  box.type = "checkbox";
  box.checked = app.onlyChanges;
  box.addEventListener("change", () => {
    app.onlyChanges = box.checked;
    app.renderPane();
  });
  only.append(box, " changes alone");
  bar.append(only);
  const shown = app.onlyChanges ? pairs.filter((row) => row.change) : pairs;
  const two = el("div", "two");
  const halves = [el("div"), el("div")];
  two.append(...halves);
  host.append(bar, two);
  const related = () => (app.op === null ? new Set() : relation[app.op]);
  const side = (half, of, key) => {
    const inner = el("div");
    half.append(inner);
    const rows = shown.map((row) => ({ text: row[key] === undefined ? "" : of.text[row[key]], number: row[key] === undefined ? undefined : row[key] + 1, line: row[key], className: row[key] === undefined ? "gap" : row.change }));
    return new Lines(inner, host, rows, "mlir", {
      click: (row) => {
        const n = of.byLine[row.line];
        if (n === undefined) return;
        if (of === stage) app.choose(n);
        else {
          const heir = relation.findIndex((set) => set.has(n));
          if (heir >= 0) app.choose(heir);
        }
      },
      classOf: (row) => {
        const n = of.byLine[row.line];
        if (row.line === undefined || n === undefined || app.op === null) return "";
        if (of === stage) return n === app.op ? "on" : "";
        return related().has(n) ? "on" : "";
      },
    });
  };
  const lists = [side(halves[0], other, "left"), side(halves[1], stage, "right")];
  app.onChoose = () => {
    const at = app.op === null ? -1 : shown.findIndex((row) => stage.byLine[row.right] === app.op);
    if (at >= 0) lists[1].reveal(at);
    lists.forEach((list) => list.render());
  };
  app.onChoose();
}

function spikesPane(app, host) {
  const { rasters } = app.record;
  const steps = Math.max(...rasters.map((r) => r.steps));
  const bar = el("div", "slider");
  const slider = el("input");
  Object.assign(slider, { type: "range", min: 0, max: steps - 1, value: app.step, id: "time" });
  slider.setAttribute("aria-label", "step");
  const label = el("b", "", "");
  const play = el("button", "", "▶");
  play.title = "play";
  bar.append(play, slider, label);
  host.append(bar);
  const draws = rasters.map((raster) => {
    const box = el("div", "raster");
    const head = el("div");
    const now = el("span", "muted");
    head.append(el("b", "", raster.name), ` ${number(raster.spikes)} spikes of ${number(raster.neurons)} neurons `, now);
    const rows = Math.min(raster.neurons, 512);
    const width = Math.max(200, host.clientWidth - 34);
    const height = Math.min(220, Math.max(48, rows * 2));
    const [canvas, pen] = sharp(width, height + 34);
    canvas.style.width = "100%";
    box.append(head, canvas);
    box.addEventListener("click", (event) => {
      if (event.target === canvas) setStep(Math.floor((event.offsetX / canvas.clientWidth) * steps));
      if (raster.op >= 0) app.go(app.record.program, raster.op);
    });
    host.append(box);
    return () => {
      pen.clearRect(0, 0, width, height + 34);
      const dx = width / steps;
      pen.fillStyle = app.css("select");
      pen.fillRect(app.step * dx, 0, Math.max(2, dx), height + 34);
      pen.fillStyle = app.css("accent");
      raster.fired.forEach((fired, t) => fired.forEach((i) => pen.fillRect(t * dx + dx * 0.1, height - ((i + 1) * height) / rows, Math.max(1, dx * 0.8), Math.max(1.5, height / rows - 0.5))));
      const most = Math.max(1, ...raster.counts);
      pen.fillStyle = KINDS[1][1];
      raster.counts.forEach((c, t) => pen.fillRect(t * dx + dx * 0.1, height + 32 - (28 * c) / most, Math.max(1, dx * 0.8), (28 * c) / most));
      now.textContent = `· step ${app.step}: ${raster.counts[app.step] ?? 0} fire` + (raster.potential ? `, mean potential ${number(raster.potential[app.step] ?? 0)}` : "");
    };
  });
  const setStep = (t) => {
    app.step = Math.min(steps - 1, Math.max(0, t));
    slider.value = app.step;
    label.textContent = `${app.step + 1} / ${steps}`;
    draws.forEach((draw) => draw());
    app.graph.draw();
  };
  slider.addEventListener("input", () => setStep(Number(slider.value)));
  play.addEventListener("click", () => {
    app.playing = app.playing ? clearInterval(app.playing) : setInterval(() => (host.isConnected && play.isConnected ? setStep((app.step + 1) % steps) : clearInterval(app.playing)), 120);
    play.textContent = app.playing ? "❚❚" : "▶";
  });
  setStep(app.step);
}

function tablePane(app, host) {
  for (const table of app.record.tables) {
    const box = el("div", "pad");
    const made = el("table");
    const numeric = table.columns.map((_, i) => table.rows.some((row) => typeof row[i] === "number"));
    const most = table.columns.map((_, i) => Math.max(...table.rows.slice(0, table.rows.length > 1 && table.title.startsWith("Circuit") ? -1 : undefined).map((row) => (typeof row[i] === "number" ? row[i] : 0))));
    const head = el("tr");
    table.columns.forEach((name, i) => head.append(el("th", numeric[i] ? "r" : "", name.replaceAll("_", " "))));
    made.append(head);
    const meter = numeric.findIndex(Boolean);
    for (const row of table.rows) {
      const line = el("tr", "go");
      row.forEach((cell, i) => {
        const td = el("td", numeric[i] ? "r" : "");
        if (i === meter && most[i] > 0 && typeof cell === "number" && cell <= most[i]) {
          const shown = el("span", "meter");
          shown.style.width = `${Math.round((46 * cell) / most[i])}px`;
          td.append(shown);
        }
        td.append(cell === null ? "" : number(cell));
        line.append(td);
      });
      line.addEventListener("click", () => app.named(String(row[0])));
      made.append(line);
    }
    box.append(el("h3", "", table.title), made);
    host.append(box);
  }
}

function checksPane(app, host) {
  const box = el("div", "pad");
  for (const stage of app.record.stages) {
    for (const check of stage.checks) {
      const rows = Object.entries(check.values);
      const wrong = rows.filter(([, row]) => row.wrong).length;
      const head = el("h3", "", `${stage.title} · ${check.kind === "pass" ? "against " : ""}${check.name}`);
      const line = el("p");
      line.style.margin = "0 0 4px";
      const meant = stage.approximate && check.kind === "pass";
      const [word, look] = check.kind === "refusal" ? ["refuses", "bad"] : !check.agrees ? ["differs", "bad"] : !rows.length ? ["not compared", ""] : meant ? ["meant to differ", ""] : ["agrees", "good"];
      line.append(el("span", `chip ${look}`, word), rows.length ? ` ${rows.length} values compared, ${wrong} beyond rounding ` : " ", meant ? "" : `${check.note} `);
      if (check.first !== null) line.append(link(`first: ${stage.ops[check.first]?.name ?? ""}`, () => app.go(stage.index, check.first, check)));
      box.append(head, line);
    }
  }
  if (!box.childNodes.length) box.append(el("div", "muted", app.record.note ? `Nothing was run: ${app.record.note}` : "Nothing was compared."));
  host.append(box);
}
