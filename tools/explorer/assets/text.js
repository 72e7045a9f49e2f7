// Text by lines, of which those that are seen exist; colours; two texts side by side.
// Not here: what the lines mean (main.js).

const LINE = 18;

const WORDS = {
  mlir: /("(?:[^"\\]|\\.)*")|(\/\/.*)|(%[\w$.#]+)|(![\w.]+|\b(?:tensor|memref|vector|i\d+|ui\d+|f\d+|bf16|index)\b(?:<[^<>]*>)?)|(@[\w$."-]+|\b(?:func\.func|func\.return|builtin\.module|attributes|dense|array|loc|true|false|unit)\b)|(\b[a-z_]\w*\.[a-z_][\w.]*)|(-?\b\d[\w.+-]*)/g,
  tri: /("(?:[^"\\]|\\.)*")|(#.*)|(\0)|(\b[A-Z]\w*\b)|(\b(?:layer|let|param|fn|return|import|from|if|else|for|in|true|false|mut|def|class|self|and|or|not|None|True|False)\b)|(\b\w+(?=\())|(-?\b\d[\w.]*)/g,
};
const CLASSES = ["s", "c", "v", "t", "k", "o", "n"];

/** A line of text in colours, as elements that hold text alone. */
function coloured(target, text, language) {
  let from = 0;
  for (const match of text.slice(0, 1200).matchAll(WORDS[language] ?? WORDS.tri)) {
    if (match.index > from) target.append(text.slice(from, match.index));
    target.append(el("span", CLASSES[match.slice(1).findIndex((part) => part !== undefined)], match[0]));
    from = match.index + match[0].length;
  }
  target.append(text.slice(from));
}

class Lines {
  /**
   * rows: [{text, number, className}]; hooks.click(row, index); hooks.classOf(row, index).
   * scroller: the element that scrolls.
   */
  constructor(host, scroller, rows, language, hooks) {
    Object.assign(this, { host, scroller, rows, language, hooks, made: new Map() });
    host.classList.add("code");
    host.style.height = `${rows.length * LINE + 12}px`;
    const widest = rows.reduce((most, row) => Math.max(most, row.text.length), 0);
    host.style.width = `max(100%, ${Math.min(widest, 1300) + 12}ch)`;
    this.onscroll = () => this.render();
    scroller.addEventListener("scroll", this.onscroll);
    new ResizeObserver(this.onscroll).observe(scroller);
    this.render();
  }

  render() {
    if (!this.host.isConnected) return;
    const first = Math.max(0, Math.floor((this.scroller.scrollTop - this.host.offsetTop) / LINE) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil(this.scroller.clientHeight / LINE) + 18);
    for (const [index, made] of this.made) {
      if (index < first || index >= last) {
        made.remove();
        this.made.delete(index);
      }
    }
    for (let index = first; index < last; index++) {
      const row = this.rows[index];
      let made = this.made.get(index);
      if (!made) {
        made = el("div");
        made.append(el("b", "", row.number === undefined ? "" : String(row.number)));
        const text = el("span");
        coloured(text, row.text, this.language);
        made.append(text);
        made.style.top = `${index * LINE}px`;
        made.addEventListener("click", () => this.hooks.click?.(row, index));
        this.host.append(made);
        this.made.set(index, made);
      }
      made.className = ["ln", row.className ?? "", this.hooks.classOf?.(row, index) ?? ""].join(" ").trim();
    }
  }

  reveal(index) {
    const top = index * LINE + this.host.offsetTop;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop + 40 || top > scrollTop + clientHeight - 60) this.scroller.scrollTop = top - clientHeight / 3;
    this.render();
  }
}

/**
 * Two stages line by line: lines of ops that are the same op stand beside each other.
 * relation: for each op of `b` the ops of `a` that it comes from.
 */
function aligned(a, b, relation) {
  const pairs = b.ops.flatMap((op, n) => [...relation[n]].filter((m) => a.ops[m].name === op.name).map((m) => [a.ops[m].lines[0], op.lines[0]]));
  const end = new Map(ascending(pairs));
  const taken = new Set(end.values());
  const rows = [];
  let left = 0;
  b.text.forEach((text, right) => {
    let match = end.get(right);
    if (match === undefined && b.byLine[right] === undefined && a.text[left] === text) match = left;
    if (match === undefined && text.trim() === "}" && a.text[left]?.trim() === "}") match = left;
    // Another op in the place of one that it comes from.
    if (match === undefined && !taken.has(left) && relation[b.byLine[right]]?.has(a.byLine[left])) match = left;
    if (match === undefined || match < left) {
      rows.push({ right, change: "add" });
      return;
    }
    while (left < match) rows.push({ left: left++, change: "del" });
    rows.push({ left, right, change: plain(a.text[left++]) === plain(text) ? "" : "mod" });
  });
  while (left < a.text.length) rows.push({ left: left++, change: "del" });
  return rows;
}

/** Of pairs [left, right] in the order of `right` the most with `left` ascending, as [right, left]. */
function ascending(pairs) {
  const piles = [];
  const below = [];
  pairs.forEach(([left], i) => {
    let [low, high] = [0, piles.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[piles[middle]][0] < left) low = middle + 1;
      else high = middle;
    }
    below[i] = low ? piles[low - 1] : -1;
    piles[low] = i;
  });
  const found = [];
  for (let i = piles.at(-1) ?? -1; i >= 0; i = below[i]) found.push([pairs[i][1], pairs[i][0]]);
  return found;
}

/** A line without the numbers that values happen to have. */
const plain = (text) => text.replace(/%\d+/g, "%");
