// What a chart is drawn with: axes, lines, bands and marks.

const MARGIN = {
  left: 56,
  right: 14,
  top: 14,
  bottom: 24
};
const HEIGHT = 250;
const CHARACTER = 6.5;  // of a label, in pixels
const ROOM = 14;         // between the middles of two labels, one above the other; or between two in a row
const AXES = {
  step: {
    name: 'step',
    format: value => Math.round(value).toLocaleString('en'),
    short: value => shortStep(Math.round(value)),
    ticks: (...range) => linearTicks(...range).filter(Number.isInteger)
  },
  tokens: {name: 'tokens', format: FORMATS.count, short: FORMATS.count, ticks: linearTicks},
  seconds: {name: 'time', format: clockTime, short: clockTime, ticks: clockTicks},
};

// A path through the points, with a gap wherever one is not known.
function linePath(points, x, y) {
  let path = '';
  let down = false;
  for (const point of points) {
    const drawable = point.mean !== null && (!y.log || point.mean > 0);
    if (drawable) path += `${down ? 'L' : 'M'}${x.place(point.x).toFixed(1)},${y.place(point.mean).toFixed(1)}`;
    down = drawable;
  }
  return path;
}

// The outline of all that lies between low and high.
function bandPath(points, x, y) {
  const known = points.filter(point => point.mean !== null && (!y.log || point.low > 0));
  if (known.length < 2) return '';
  const corner = (point, value) => `${x.place(point.x).toFixed(1)},${y.place(value).toFixed(1)}`;
  const there = known.map(point => corner(point, point.high));
  const back = known.reverse().map(point => corner(point, point.low));
  return `M${there.join('L')}L${back.join('L')}Z`;
}

// What lies between the margins of a picture of that width.
function clipOf(id, width) {
  const frame = svg('rect', {
    x: MARGIN.left - 3,
    y: MARGIN.top - 2,
    width: width - MARGIN.left - MARGIN.right + 7,
    height: HEIGHT - MARGIN.top - MARGIN.bottom + 4
  });
  return svg('clipPath', {id}, frame);
}

function drawAxes(picture, x, y, axis, format) {
  const left = MARGIN.left;
  const right = x.place(x.high);
  const bottom = HEIGHT - MARGIN.bottom;
  for (const tick of withEnds((y.log ? logTicks : linearTicks)(y.low, y.high, 7), y, ROOM)) {
    const at = y.place(tick).toFixed(1);
    picture.append(
        svg('line', {class: 'grid', x1: left, x2: right, y1: at, y2: at}),
        svg('text', {x: left - 6, y: at, dy: '.35em', 'text-anchor': 'end'}, format(tick)));
  }
  const widest = Math.max(axis.short(x.low).length, axis.short(x.high).length) * CHARACTER;
  const ticks = axis.ticks(x.low, x.high, Math.max(2, Math.floor((right - left) / 90)));
  for (const tick of withEnds(ticks, x, widest + ROOM)) {
    const at = x.place(tick);
    const label = axis.short(tick);
    const middle = Math.min(at, right + MARGIN.right - label.length * CHARACTER / 2);  // inside of the picture
    picture.append(
        svg('line', {class: 'axis', x1: at.toFixed(1), x2: at.toFixed(1), y1: bottom, y2: bottom + 4}),
        svg('text', {x: middle.toFixed(1), y: bottom + 16, 'text-anchor': 'middle'}, label));
  }
  picture.append(svg('line', {class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom}));
}

// What is drawn of one series of one run.
function drawCurve(group, curve, x, y) {
  const kind = curve.isValidation ? 'curve validation' : 'curve';
  if (curve.raw.some(point => point.low !== point.high))
    group.append(svg('path', {class: 'band', d: bandPath(curve.raw, x, y)}));
  if (curve.points !== curve.raw) group.append(svg('path', {class: 'raw', d: linePath(curve.raw, x, y)}));
  group.append(svg('path', {class: kind, d: linePath(curve.points, x, y)}));
  if (curve.points.length > 1 && !(curve.isValidation && curve.points.length <= 60)) return;
  for (const point of curve.points) {
    if (point.mean === null || (y.log && point.mean <= 0)) continue;
    group.append(
        svg('circle', {class: 'point', r: 2.5, cx: x.place(point.x).toFixed(1), cy: y.place(point.mean).toFixed(1)}));
  }
}

function drawEvents(group, events, x, isFew) {
  for (const event of events) {
    const at = x.place(event.x);
    if (isFew) group.append(svg('line', {class: 'event', x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom}));
    group.append(svg('path', {class: 'event-mark', d: `M${at - 4},${MARGIN.top - 9}h8l-4,7Z`}));
  }
}
