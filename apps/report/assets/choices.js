// Choices of the reader, kept in the page's address after '#': they survive a reload, and a link shows what one sees.

class Choices {
  constructor(runs) {
    const given = new URLSearchParams(location.hash.slice(1));
    const numbers = name => (given.get(name) || '').split(',').filter(Boolean).map(Number);
    const smoothing = Number(given.get('smoothing') || 0.6);
    const zoom = numbers('zoom');
    this.runs = runs;
    this.axis = given.get('axis') in AXES ? given.get('axis') : 'step';
    this.smoothing = smoothing >= 0 && smoothing < 1 ? smoothing : 0.6;
    this.outliers = given.has('outliers');
    this.zoom = zoom.length === 2 && zoom[0] < zoom[1] ? zoom : null;
    this.log = new Set((given.get('log') || '').split(',').filter(Boolean));
    const hidden = new Set(numbers('hidden'));
    runs.forEach((run, index) => Object.assign(run, {index, isVisible: !hidden.has(index)}));
    this.at = null;    // where the crosshair is
    this.movedAt = 0;  // when it was moved last, in milliseconds
    this.isDragging = false;
  }

  get visible() { return this.runs.filter(run => run.isVisible); }

  // Into the address.
  keep() {
    const values = {
      axis: this.axis === 'step' ? '' : this.axis,
      smoothing: this.smoothing === 0.6 ? '' : String(this.smoothing),
      outliers: this.outliers ? 'yes' : '',
      zoom: this.zoom ? this.zoom.map(value => Number(value.toPrecision(6))).join(',') : '',
      log: [...this.log].join(','),
      hidden: this.runs.filter(run => !run.isVisible).map(run => run.index).join(',')
    };
    const text = Object.entries(values).filter(([, value]) => value).map(pair => pair.join('=')).join('&');
    try {
      history.replaceState(null, '', text ? `#${text}` : location.pathname);
    } catch {  // a page in a frame may not change its address; then nothing is kept
    }
  }
}
