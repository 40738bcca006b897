// What rank 0 of a run holds, as areas on top of each other.

const RESIDENT = 'resident';

// The parts, each with the place of its lower and upper edge at every step; what is known of no part comes on top.
function stackOf(run) {
  const base = run.step.map(() => 0);
  const stack = run.memory.filter(part => part.name !== RESIDENT && part.bytes.some(bytes => bytes > 0)).map(part => {
    const low = base.slice();
    part.bytes.forEach((bytes, i) => {
      base[i] += bytes || 0;
    });
    return {name: part.name, low, high: base.slice()};
  });
  const resident = run.memory.find(part => part.name === RESIDENT);
  if (!resident) return stack;
  const high = base.map((bytes, i) => Math.max(bytes, resident.bytes[i] || 0));
  return [...stack, {name: stack.length > 0 ? 'everything else' : 'all', low: base, high}];
}

function areaPath(part, places, y) {
  const corner = (value, i) => `${places[i].toFixed(1)},${y.place(value).toFixed(1)}`;
  const there = part.high.map(corner);
  const back = part.low.map(corner).reverse();
  return `M${there.join('L')}L${back.join('L')}Z`;
}

function memoryKey(stack) {
  const last = stack.length > 0 ? stack[0].high.length - 1 : 0;
  return html(
      'div', {class: 'key'},
      ...stack.map(
          (part, i) =>
              html('span', {}, swatch('part', i), `${part.name} ${FORMATS.bytes(part.high[last] - part.low[last])}`)));
}

function drawMemory(parent, state) {
  parent.replaceChildren();
  for (const run of visibleRuns(state)) {
    const stack = stackOf(run);
    if (stack.length === 0) continue;
    const name = state.runs.length > 1 ? [swatch('run', run.index), run.name] : ['Memory'];
    const holder = html('div');
    parent.append(html('figure', {class: 'chart'}, html('figcaption', {}, ...name), holder, memoryKey(stack)));
    const width = Math.max(holder.clientWidth, 200);
    const xs = run[state.axis].includes(null) ? run.step : run[state.axis];
    // Of a single record the area has no width: it is drawn as wide as the picture.
    const ends = [xs[0], xs[xs.length - 1] > xs[0] ? xs[xs.length - 1] : xs[0] + 1];
    const x = scaleOf(ends[0], ends[1], MARGIN.left, width - MARGIN.right, false);
    const y =
        scaleOf(0, 1.05 * Math.max(...stack[stack.length - 1].high, 1), HEIGHT - MARGIN.bottom, MARGIN.top, false);
    const picture = svg(
        'svg', {viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: 'img', 'aria-label': `memory of ${run.name}`});
    drawAxes(picture, x, y, AXES[state.axis], FORMATS.bytes);
    const places = xs.map(x.place);
    const drawnTwice = values =>
        ({...values, low: [...values.low, ...values.low], high: [...values.high, ...values.high]});
    stack.forEach((part, i) => picture.append(svg('path', {
      class: `area part-${i % 8}`,
      d: places.length > 1 ? areaPath(part, places, y) :
                             areaPath(drawnTwice(part), [MARGIN.left, width - MARGIN.right], y),
    })));
    holder.append(picture);
  }
  document.getElementById('memory').hidden = parent.childElementCount === 0;
}
