// A picture with two axes in a frame: its caption, its buttons, and the values under the crosshair. A class that
// extends it has `content`: fit() sets the scales x and y, paint(group) draws, valuesAt(x) and table() tell its
// numbers.

class Panel {
  constructor(parent, choices, {id, title, unit = '', format, isWide = false}) {
    Object.assign(this, {id, title, unit, choices, format: FORMATS[format]});
    this.readout = html('span', {class: 'unit'}, unit);
    this.buttons = html('span', {class: 'buttons'});
    this.caption = html('figcaption', {}, html('span', {}, ...[title].flat()), this.readout, this.buttons);
    this.plot = html('div', {class: 'plot', tabindex: '0', 'aria-label': 'arrow keys move the crosshair'});
    this.tooltip = html('div', {class: 'tooltip', hidden: ''});
    this.figure = html('figure', {class: isWide ? 'chart wide' : 'chart'}, this.caption, this.plot, this.tooltip);
    parent.append(this.figure);
    addExport(this);
  }

  get name() { return this.caption.firstChild.textContent; }

  // The part of the axis from `low` to `high` that is shown.
  horizontal(low, high) {
    [low, high] = this.choices.zoom && !this.ignoresZoom ? this.choices.zoom : [low, high];
    if (!Number.isFinite(high - low)) [low, high] = [0, 1];
    if (high <= low) [low, high] = [Math.max(low - 1, 0), low + 1];
    return scaleOf(low, high, MARGIN.left, this.width - MARGIN.right, false);
  }

  draw() {
    this.width = Math.max(this.plot.clientWidth, 200);
    this.fit();
    this.picture =
        svg('svg', {viewBox: `0 0 ${this.width} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': this.name});
    drawAxes(this.picture, this.x, this.y, AXES[this.choices.axis], this.format);
    const content = svg('g', {'clip-path': `url(#clip-${this.id})`});
    this.picture.append(clipOf(`clip-${this.id}`, this.width), content);
    this.paint(content);
    this.cursor = svg('g', {class: 'cursor'});
    this.picture.append(this.cursor);
    this.plot.replaceChildren(this.picture);
    pointAt(this, this.choices.at, false);
  }

  // Where a place on the screen lies on the axis; null outside of the plot.
  positionOf(clientX) {
    const box = this.picture.getBoundingClientRect();
    const place = (clientX - box.left) * this.width / box.width;
    const share = (place - MARGIN.left) / (this.width - MARGIN.right - MARGIN.left);
    return share < 0 || share > 1 ? null : this.x.low + share * (this.x.high - this.x.low);
  }
}
