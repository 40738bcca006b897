// Under the pointer: a line through the chart, and the values there.

function tooltipRow(run, text) { return html('div', {}, swatch('run', run.index), text); }

function describe(chart, at) {
  const {axis, runs} = chart.state;
  const format = FORMATS[chart.spec.format];
  const rows = [];
  for (const curve of chart.drawn) {
    const point = nearest(curve.points, at);
    if (point === null) continue;
    const raw = nearest(curve.raw, at);
    const name =
        [runs.length > 1 ? curve.run.name : '', curve.isValidation ? 'held-back' : ''].filter(Boolean).join(', ');
    const range = raw.low !== raw.high ? ` (${format(raw.low)} to ${format(raw.high)})` :
        curve.points !== curve.raw ? ` (${format(raw.mean)})` :
                                     '';
    rows.push(tooltipRow(curve.run, `${name ? `${name}: ` : ''}${format(point.mean)}${range}`));
  }
  const close = 6 * (chart.x.high - chart.x.low) / (chart.picture.clientWidth || 1);
  const events = chart.events.filter(event => Math.abs(event.x - at) <= close).slice(0, 5);
  rows.push(...events.map(event => tooltipRow(event.run, event.text)));
  return [html('div', {class: 'title'}, `${AXES[axis].name} ${AXES[axis].format(at)}`), ...rows];
}

function addHover(chart) {
  const cursor = svg('line', {class: 'cursor', y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom});
  const leave = () => {
    chart.tooltip.hidden = true;
    cursor.remove();
  };
  chart.holder.addEventListener('pointerleave', leave);
  chart.holder.addEventListener('pointermove', event => {
    if (chart.drawn.length === 0) return;
    const box = chart.picture.getBoundingClientRect();
    const left = MARGIN.left;
    const right = box.width - MARGIN.right;
    const share = (event.clientX - box.left - left) / (right - left);
    if (share < 0 || share > 1) return leave();
    const wanted = chart.x.low + share * (chart.x.high - chart.x.low);
    const at = (nearest(chart.drawn[0].points, wanted) || {x: wanted}).x;
    const place = chart.x.place(at);
    dress(cursor, {x1: place, x2: place}, []);
    chart.picture.append(cursor);
    chart.tooltip.replaceChildren(...describe(chart, at));
    chart.tooltip.hidden = false;
    const isRight = place > box.width / 2;
    chart.tooltip.style.left = isRight ? '' : `${place + 22}px`;
    chart.tooltip.style.right = isRight ? `${box.width - place + 22}px` : '';
  });
}
