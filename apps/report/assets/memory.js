// What rank 0 of a run holds, as areas on top of each other.

const RESIDENT = 'resident';
const isInFiles = part => part.name.endsWith(' in files');  // and in no memory
const REST_COLOUR = 9;  // grey

// The parts, each with its lower and upper edge at every step; what is known of no part comes on top.
function stackOf(run) {
  const base = run.step.map(() => 0);
  const parts = run.memory.filter(part => part.name !== RESIDENT && !isInFiles(part));
  const stack = parts.filter(part => part.bytes.some(bytes => bytes > 0)).map(({name, bytes, colour}) => {
    const low = base.slice();
    bytes.forEach((held, at) => {
      base[at] += held || 0;
    });
    return {name, colour, low, high: base.slice()};
  });
  const resident = run.memory.find(part => part.name === RESIDENT);
  if (!resident) return stack;
  const high = base.map((bytes, i) => Math.max(bytes, resident.bytes[i] || 0));
  return [...stack, {name: stack.length > 0 ? 'everything else' : 'all', colour: REST_COLOUR, low: base, high}];
}

function areaPath(part, places, y) {
  const corner = (value, i) => `${places[i].toFixed(1)},${y.place(value).toFixed(1)}`;
  const there = part.high.map(corner);
  const back = part.low.map(corner).reverse();
  return `M${there.join('L')}L${back.join('L')}Z`;
}

class MemoryChart extends Panel {
  constructor(parent, choices, run) {
    const title = choices.runs.length > 1 ? [swatch('run', run.index), run.name] : 'Memory';
    super(parent, choices, {id: `memory-${run.index}`, title, format: 'bytes'});
    this.run = run;
    this.stack = stackOf(run);
    this.figure.append(html('div', {class: 'key'}, ...this.key()));
  }

  bytesAt(part, i) { return part.high[i] - part.low[i]; }

  key() {
    const last = this.run.step.length - 1;
    return this.stack.map(
        part => html('span', {}, swatch('part', part.colour), `${part.name} ${this.format(this.bytesAt(part, last))}`));
  }

  fit() {
    this.isDrawn = this.run.isVisible && this.stack.length > 0;
    this.figure.hidden = !this.isDrawn;
    const {run, choices: {axis}} = this;
    this.xs = run[axis].includes(null) ? run.step : run[axis];
    this.x = this.horizontal(this.xs[0], this.xs[this.xs.length - 1]);
    const highest =
        this.stack.length > 0 ? this.stack[this.stack.length - 1].high.reduce((a, b) => Math.max(a, b), 1) : 1;
    this.y = verticalScale([0, highest], false);
  }

  paint(content) {
    // The area of a single record would have no width: it is drawn as wide as the picture.
    const isWide = this.xs.length > 1;
    const places = isWide ? this.xs.map(this.x.place) : [MARGIN.left, this.width - MARGIN.right];
    const spread = values => isWide ? values : [values[0], values[0]];
    for (const part of this.stack)
      content.append(svg('path', {
        class: `area part-${part.colour}`,
        d: areaPath({low: spread(part.low), high: spread(part.high)}, places, this.y),
      }));
  }

  index(at) { return this.xs.reduce((best, x, i) => Math.abs(x - at) < Math.abs(this.xs[best] - at) ? i : best, 0); }

  snap(at) { return this.xs[this.index(at)]; }

  neighbour(at, by) {
    const i = at === null ? (by > 0 ? -1 : this.xs.length) : this.index(at);
    return this.xs[Math.min(Math.max(i + by, 0), this.xs.length - 1)];
  }

  valuesAt(at) {
    const i = this.index(at);
    if (this.stack.length === 0) return [];
    const parts = this.stack.map(
        part => ({kind: 'part', index: part.colour, text: `${part.name} ${this.format(this.bytesAt(part, i))}`}));
    const all = this.format(this.stack[this.stack.length - 1].high[i]);
    return [...parts.reverse(), {kind: 'run', index: this.run.index, short: all, text: `together ${all}`}];
  }

  legend() { return this.stack.map(part => ({kind: 'part', index: part.colour, name: part.name})); }

  table() {
    const rows = [['run', this.choices.axis, 'part', 'bytes']];
    for (const part of this.stack)
      this.xs.forEach((x, i) => rows.push([this.run.name, x, part.name, this.bytesAt(part, i)]));
    return rows;
  }
}
