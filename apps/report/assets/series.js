// The numbers of the runs, as a chart wants them: points {x, mean, low, high}. What is not known is null.

// The value at `at` on the line through the points (xs, ys); xs rise. NaN where the ys are not known.
function interpolated(xs, ys, at) {
  if (ys.includes(null)) return NaN;
  let after = xs.findIndex(x => x >= at);
  if (after < 0) after = xs.length - 1;
  const before = Math.max(after - 1, 0);
  const width = xs[after] - xs[before];
  const share = width > 0 ? Math.min((at - xs[before]) / width, 1) : 1;
  return ys[before] + share * (ys[after] - ys[before]);
}

// Where on the axis ('step', 'tokens' or 'seconds') a step of the run lies.
function placeOf(run, axis, step) { return axis === 'step' ? step : interpolated(run.step, run[axis], step); }

function pointsOf(run, name, axis) {
  const series = run.series[name];
  if (!series) return [];
  const xs = series.step ? series.step.map(step => placeOf(run, axis, step)) : run[axis];
  const low = series.low || series.mean;
  const high = series.high || series.mean;
  const points = series.mean.map((mean, i) => ({x: xs[i], mean, low: low[i], high: high[i]}));
  return points.filter(point => Number.isFinite(point.x));
}

// A moving average that forgets exponentially, freed from its bias towards the beginning (Kingma and Ba, 2015).
function smoothed(points, weight) {
  let sum = 0;
  let known = 0;
  return points.map(point => {
    if (point.mean === null) return {...point};
    sum = weight * sum + (1 - weight) * point.mean;
    known = weight * known + (1 - weight);
    return {...point, mean: sum / known};
  });
}

// The point nearest to x; null when there is none, or when x lies beyond both ends by more than `close`: a shorter run
// has no value there.
function nearest(points, x, close = Infinity) {
  const known = points.filter(point => point.mean !== null);
  if (known.length === 0 || x < known[0].x - close || x > known[known.length - 1].x + close) return null;
  return known.reduce((best, point) => Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best);
}
