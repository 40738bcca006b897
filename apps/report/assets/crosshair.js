// One crosshair for all panels: under the pointer of one, at the same step in the others, with the values there.

function valueRow({kind, index, text}) { return html('div', {}, swatch(kind, index), text); }

// Draws the crosshair into a panel, which has the pointer or not; `at` null: takes it away.
function pointAt(panel, at, hasPointer) {
  const isInside = at !== null && at >= panel.x.low && at <= panel.x.high;
  const values = isInside ? panel.valuesAt(at) : [];
  panel.tooltip.hidden = !(hasPointer && isInside);
  panel.cursor.replaceChildren();
  const shown = values.filter(value => value.short).slice(0, 4);
  panel.readout.replaceChildren(
      ...!hasPointer && shown.length > 0 ?
          shown.map(({kind, index, short}) => html('span', {class: 'value'}, swatch(kind, index), short)) :
          [panel.unit]);
  if (!isInside) return;
  const place = panel.x.place(at);
  panel.cursor.append(svg('line', {x1: place, x2: place, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom}));
  for (const value of values.filter(({x, y}) => x >= panel.x.low && x <= panel.x.high && Number.isFinite(y)))
    panel.cursor.append(
        svg('circle', {class: colourOf(value.kind, value.index), r: 3.5, cx: panel.x.place(value.x), cy: value.y}));
  if (!hasPointer) return;
  const {name, format} = AXES[panel.choices.axis];
  panel.tooltip.replaceChildren(html('div', {class: 'title'}, `${name} ${format(at)}`), ...values.map(valueRow));
  const box = panel.plot.clientWidth / panel.width;
  const isRight = place > panel.width / 2;
  panel.tooltip.style.left = isRight ? '' : `${place * box + 24}px`;
  panel.tooltip.style.right = isRight ? `${(panel.width - place) * box + 24}px` : '';
}

function addCrosshair(panels, choices) {
  const move = (at, source) => {
    choices.at = at;
    choices.movedAt = Date.now();
    for (const panel of panels.filter(shown => shown.isDrawn)) pointAt(panel, at, panel === source);
  };
  for (const panel of panels) {
    const follow = event => {
      if (choices.isDragging || !panel.isDrawn) return;
      const wanted = panel.positionOf(event.clientX);
      move(wanted === null ? null : panel.snap(wanted), panel);
    };
    panel.plot.addEventListener('pointermove', follow);
    panel.plot.addEventListener('pointerdown', follow);
    panel.plot.addEventListener('pointerleave', () => move(null, null));
    panel.plot.addEventListener('blur', () => move(null, null));
    panel.plot.addEventListener('keydown', event => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by || !panel.isDrawn) return;
      event.preventDefault();
      move(panel.neighbour(choices.at, by), panel);
    });
  }
}
