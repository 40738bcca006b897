// What rank 0 of a run holds, as areas on top of each other.

const RESIDENT = 'resident';
const REST_COLOUR = 7;  // grey

// The parts, each with the place of its lower and upper edge at every step; what is known of no part comes on top.
function stackOf(run) {
  const base = run.step.map(() => 0);
  const isPart = part => part.name !== RESIDENT && part.bytes.some(bytes => bytes > 0);
  const stack = run.memory.filter(isPart).map((part, i) => {
    const low = base.slice();
    part.bytes.forEach((bytes, at) => {
      base[at] += bytes || 0;
    });
    return {name: part.name, colour: i % REST_COLOUR, low, high: base.slice()};
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

function memoryKey(stack) {
  const entries = stack.map(part => {
    const bytes = part.high[part.high.length - 1] - part.low[part.low.length - 1];
    return html('span', {}, swatch('part', part.colour), `${part.name} ${FORMATS.bytes(bytes)}`);
  });
  return html('div', {class: 'key'}, ...entries);
}

function memoryPicture(run, stack, axis, width) {
  const xs = run[axis].includes(null) ? run.step : run[axis];
  const isWide = xs[xs.length - 1] > xs[0];
  const x = scaleOf(xs[0], isWide ? xs[xs.length - 1] : xs[0] + 1, MARGIN.left, width - MARGIN.right, false);
  const highest = Math.max(...stack[stack.length - 1].high, 1);
  const y = scaleOf(0, 1.05 * highest, HEIGHT - MARGIN.bottom, MARGIN.top, false);
  const label = `memory of ${run.name}`;
  const picture = svg('svg', {viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': label});
  drawAxes(picture, x, y, AXES[axis], FORMATS.bytes);
  // The area of a single record would have no width: it is drawn as wide as the picture.
  const places = isWide ? xs.map(x.place) : [MARGIN.left, width - MARGIN.right];
  const spread = values => isWide ? values : [values[0], values[0]];
  stack.forEach(part => picture.append(svg('path', {
    class: `area part-${part.colour}`,
    d: areaPath({low: spread(part.low), high: spread(part.high)}, places, y),
  })));
  return picture;
}

function drawMemory(parent, state) {
  const known = visibleRuns(state).map(run => ({run, stack: stackOf(run)})).filter(({stack}) => stack.length > 0);
  const holders = known.map(() => html('div'));
  parent.replaceChildren(...known.map(({run, stack}, i) => {
    const name = state.runs.length > 1 ? [swatch('run', run.index), run.name] : ['Memory'];
    return html(
        'figure', {class: 'chart'}, html('figcaption', {}, html('span', {}, ...name)), holders[i], memoryKey(stack));
  }));
  // How wide each is, is known when all are there.
  known.forEach(({run, stack}, i) => {
    holders[i].append(memoryPicture(run, stack, state.axis, Math.max(holders[i].clientWidth, 200)));
  });
  document.getElementById('memory').hidden = known.length === 0;
}
