// Curves of all visible runs over one axis.

class Chart extends Panel {
  constructor(parent, choices, spec, draw) {
    super(parent, choices, spec);
    this.spec = spec;
    this.ignoresZoom = Boolean(spec.fromShare);
    this.button = html('button', {type: 'button', class: 'log', title: 'logarithmic axis'}, 'log');
    this.button.addEventListener('click', () => {
      choices.log.delete(spec.id) || choices.log.add(spec.id);
      draw();
    });
    this.buttons.prepend(this.button);
  }

  get isLog() { return this.choices.log.has(this.id); }

  // The series of all visible runs, as they are and smoothed.
  curves() {
    const {axis, smoothing} = this.choices;
    return this.choices.visible
        .flatMap(run => this.spec.series.map(name => {
          const raw = pointsOf(run, name, axis);
          const isValidation = name === 'validation_loss';
          const isSmooth = smoothing > 0 && !this.spec.exact && !isValidation && raw.length > 20;
          return {run, name, isValidation, raw, points: isSmooth ? smoothed(raw, smoothing) : raw};
        }))
        .filter(curve => curve.points.some(point => point.mean !== null));
  }

  fit() {
    this.button.setAttribute('aria-pressed', String(this.isLog));
    this.drawn = this.curves();
    const [first, last] = this.choices.visible.map(run => run[this.choices.axis]).reduce(widest, [Infinity, -Infinity]);
    this.isDrawn = this.drawn.length > 0 && last >= first;
    this.x = this.horizontal(first + (last - first) * (this.spec.fromShare || 0), last);
    const inside = this.drawn.flatMap(curve => curve.points === curve.raw ? curve.raw : curve.raw.concat(curve.points))
                       .filter(point => point.x >= this.x.low && point.x <= this.x.high);
    const range =
        rangeOf(inside.map(point => point.mean), {...this.spec, log: this.isLog, outliers: this.choices.outliers});
    this.y = verticalScale(range, this.isLog);
  }

  paint(content) {
    const {axis, visible} = this.choices;
    const placed =
        visible.flatMap(run => run.events.map(event => ({x: placeOf(run, axis, event.step), text: event.text, run})));
    this.events = placed.filter(event => event.x >= this.x.low && event.x <= this.x.high);
    for (const run of visible) {
      const marks = svg('g', {class: colourOf('run', run.index)});
      drawEvents(marks, this.events.filter(event => event.run === run), this.x, this.events.length <= 12);
      content.before(marks);
      const group = svg('g', {class: colourOf('run', run.index)});
      for (const curve of this.drawn.filter(drawn => drawn.run === run)) drawCurve(group, curve, this.x, this.y);
      content.append(group);
    }
  }

  // The step of the first curve that is nearest.
  snap(at) { return (nearest(this.drawn[0].points, at) || {x: at}).x; }

  neighbour(at, by) {
    const xs = this.drawn[0].points.map(point => point.x).filter(x => x >= this.x.low && x <= this.x.high);
    const last = xs.length - 1;
    const here = at === null ? (by > 0 ? -1 : last + 1) : xs.findIndex(x => x >= at);
    return xs[Math.min(Math.max((here < 0 ? last : here) + by, 0), last)];
  }

  valuesAt(at) {
    const {format, choices, x, y} = this;
    const close = (x.high - x.low) / 100;
    const values = [];
    for (const curve of this.drawn) {
      const point = nearest(curve.points, at, close);
      if (point === null) continue;
      const raw = nearest(curve.raw, at, close);
      const range = raw.low !== raw.high ? ` (${format(raw.low)} to ${format(raw.high)})` :
          curve.points !== curve.raw ? ` (${format(raw.mean)})` :
                                       '';
      const names = [choices.runs.length > 1 ? curve.run.name : '', curve.isValidation ? 'validation' : ''];
      const name = names.filter(Boolean).join(', ');
      values.push({
        kind: 'run',
        index: curve.run.index,
        x: point.x,
        y: y.place(point.mean),
        short: curve.isValidation ? '' : format(point.mean),
        text: `${name ? `${name}: ` : ''}${format(point.mean)}${range}`
      });
    }
    const events = this.events.filter(event => Math.abs(event.x - at) <= close).slice(0, 5);
    return values.concat(events.map(event => ({kind: 'run', index: event.run.index, text: event.text})));
  }

  legend() {
    const {runs, visible} = this.choices;
    return runs.length > 1 ? visible.map(run => ({kind: 'run', index: run.index, name: run.name})) : [];
  }

  // One row per point; of a long run each point is the mean of neighbouring steps.
  table() {
    const rows = [['run', 'series', this.choices.axis, 'mean', 'lowest', 'highest']];
    for (const {run, name, raw} of this.drawn)
      for (const point of raw) rows.push([run.name, name, point.x, point.mean, point.low, point.high]);
    return rows;
  }
}
