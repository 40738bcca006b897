// A chart: the curves of all visible runs over one axis.

class Chart {
  constructor(parent, spec, state) {
    this.spec = spec;
    this.state = state;
    this.log = false;
    this.button = html('button', {type: 'button', 'aria-pressed': 'false', title: 'logarithmic axis'}, 'log');
    this.button.addEventListener('click', () => this.toggleLog());
    this.holder = html('div');
    this.tooltip = html('div', {class: 'tooltip', hidden: ''});
    this.figure = html(
        'figure', {class: spec.wide ? 'chart wide' : 'chart'},
        html('figcaption', {}, spec.title, html('span', {class: 'unit'}, spec.unit || ''), this.button), this.holder,
        this.tooltip);
    parent.append(this.figure);
    addHover(this);
  }

  toggleLog() {
    this.log = !this.log;
    this.button.setAttribute('aria-pressed', String(this.log));
    this.draw();
  }

  // The series of all visible runs, as they are and smoothed.
  curves() {
    const {axis, smoothing} = this.state;
    return visibleRuns(this.state)
        .flatMap(run => this.spec.series.map(name => {
          const raw = pointsOf(run, name, axis);
          const isValidation = name === 'validation_loss';
          const isSmooth = smoothing > 0 && !this.spec.exact && !isValidation && raw.length > 20;
          return {run, isValidation, raw, points: isSmooth ? smoothed(raw, smoothing) : raw};
        }))
        .filter(curve => curve.points.some(point => point.mean !== null));
  }

  // So that all that is drawn fits between the margins.
  fitScales(width) {
    const all = this.drawn.flatMap(curve => curve.points === curve.raw ? curve.raw : curve.raw.concat(curve.points));
    const {log, spec: {fromZero}, state: {outliers}} = this;
    const [low, high] = rangeOf(all.map(point => point.mean), {log, outliers, fromZero});
    this.y = scaleOf(low, high, HEIGHT - MARGIN.bottom, MARGIN.top, log);
    const places = all.map(point => point.x);
    let first = places.reduce((a, b) => Math.min(a, b), Infinity);
    let last = places.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!(last > first)) [first, last] = [(places[0] || 0) - 1, (places[0] || 0) + 1];
    this.x = scaleOf(first, last, MARGIN.left, width - MARGIN.right, false);
  }

  draw() {
    this.tooltip.hidden = true;
    this.drawn = this.curves();
    const width = Math.max(this.holder.clientWidth, 200);
    this.fitScales(width);
    this.picture =
        svg('svg', {viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': this.spec.title});
    drawAxes(this.picture, this.x, this.y, AXES[this.state.axis], FORMATS[this.spec.format]);
    this.drawContent(width);
    this.holder.replaceChildren(this.picture);
  }

  drawContent(width) {
    const clip = `clip-${this.spec.series[0]}`;
    const frame = svg('rect', {
      x: MARGIN.left,
      y: MARGIN.top - 2,
      width: width - MARGIN.left - MARGIN.right,
      height: HEIGHT - MARGIN.top - MARGIN.bottom + 4
    });
    this.picture.append(svg('clipPath', {id: clip}, frame));
    this.events = visibleRuns(this.state)
                      .flatMap(
                          run => run.events.map(
                              event => ({x: placeOf(run, this.state.axis, event.step), text: event.text, run})));
    this.events = this.events.filter(event => event.x >= this.x.low && event.x <= this.x.high);
    for (const run of visibleRuns(this.state)) {
      const marks = svg('g', {class: `run-${run.index % 8}`});
      drawEvents(marks, this.events.filter(event => event.run === run), this.x, this.events.length <= 12);
      const group = svg('g', {class: `run-${run.index % 8}`, 'clip-path': `url(#${clip})`});
      for (const curve of this.drawn.filter(drawn => drawn.run === run)) drawCurve(group, curve, this.x, this.y);
      this.picture.append(marks, group);
    }
  }
}
