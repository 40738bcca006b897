// Axes: from numbers to places in the picture.

// 1, 2 or 5 times a power of ten: about `wanted` of them are between low and high.
function linearStep(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(factor => factor * power).find(candidate => candidate >= rough) || 10 * power;
}

// `wanted` of them or a few more.
function linearTicks(low, high, wanted) {
  if (!(high > low)) return [low];
  const step = linearStep(low, high, wanted);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
    ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high, wanted) {
  for (const factors of [[1], [1, 3], [1, 2, 5]]) {
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
      for (const factor of factors) ticks.push(Number((factor * 10 ** power).toPrecision(6)));
    }
    const visible = ticks.filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
    if (visible.length >= 3) {
      const every = Math.ceil(visible.length / (2 * wanted));
      return visible.filter((tick, i) => i % every === 0);
    }
  }
  return linearTicks(low, high, wanted);
}

// Steps of a clock: seconds, minutes and hours.
function clockTicks(low, high, wanted) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const step = steps.find(candidate => (high - low) / candidate <= wanted);
  if (!step) return linearTicks(low, high, wanted);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) ticks.push(at);
  return ticks;
}

// {low, high, log, place(value)}: `from` and `to` are the places of the ends.
function scaleOf(low, high, from, to, log) {
  const transform = log ? Math.log10 : value => value;
  const begin = transform(low);
  const length = transform(high) - begin || 1;
  return {low, high, log, place: value => from + (to - from) * (transform(value) - begin) / length};
}

// Both ends of an axis and the ticks between them. A tick within `room` pixels of an end is left out.
function withEnds(ticks, {low, high, place}, room) {
  const isFree = tick => [low, high].every(end => Math.abs(place(tick) - place(end)) >= room);
  return [low, ...ticks.filter(isFree), high];
}

// The nearest of 1, 2 and 5 times a power of ten that is at most, or at least, the value.
function roundedDown(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((power * [1, 2, 5, 10].findLast(factor => factor <= value / power * 1.001)).toPrecision(6));
}

function roundedUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((power * [1, 2, 5, 10].find(factor => factor >= value / power * 0.999)).toPrecision(6));
}

// A vertical axis for the range, made wider so that both of its ends are ticks.
function verticalScale([from, to], log) {
  let [low, high] = [from, to];
  if (log && to >= 10 * from) {
    low = roundedDown(from);
    high = roundedUp(to);
  } else {
    for (let step = 0, wider; (wider = linearStep(low, high, 7)) > step;) {
      step = wider;
      low = Number((Math.floor(low / step + 1e-9) * step).toPrecision(12));
      high = Number((Math.ceil(high / step - 1e-9) * step).toPrecision(12));
    }
    if (log && low <= 0) low = roundedDown(from);
  }
  return scaleOf(low, high, HEIGHT - MARGIN.bottom, MARGIN.top, log);
}

// The range of the values, with some air if they are all alike; on a logarithmic axis, of those above zero.
function rangeOf(values, {log, outliers, fromZero}) {
  const usable = values.filter(value => value !== null && (!log || value > 0)).sort((a, b) => a - b);
  if (usable.length === 0) return log ? [1, 10] : [0, 1];
  const cut = outliers ? Math.floor(usable.length * 0.01) : 0;
  let low = usable[cut];
  let high = usable[usable.length - 1 - cut];
  if (log) return high > low ? [low, high] : [low / 2, high * 2];
  if (fromZero) low = Math.min(0, low);
  if (high > low) return [low, high];
  const air = Math.abs(high) * 0.05 || 1;
  return [fromZero ? low : low - air, high + air];
}

// The range from `low` to `high`, made wide enough for the known ones of the values.
function widest([low, high], values) {
  const known = values.filter(value => value !== null);
  return [known.reduce((a, b) => Math.min(a, b), low), known.reduce((a, b) => Math.max(a, b), high)];
}
