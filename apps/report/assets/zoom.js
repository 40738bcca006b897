// Dragging across a panel shows that part of the axis in all of them; a double click or Escape shows all again.

const LEAST_DRAG = 8;  // pixels

function addZoom(panels, choices, draw) {
  const zoomTo = range => {
    choices.zoom = range;
    draw();
  };
  for (const panel of panels) {
    let from = null;
    const frame = svg('rect', {class: 'selection', y: MARGIN.top, height: HEIGHT - MARGIN.top - MARGIN.bottom});
    const end = () => {
      from = null;
      choices.isDragging = false;
      frame.remove();
    };
    panel.plot.addEventListener('pointerdown', event => {
      if (event.pointerType === 'touch' || event.button !== 0 || !panel.isDrawn) return;
      const at = panel.positionOf(event.clientX);
      if (at !== null) from = {at, clientX: event.clientX};
    });
    panel.plot.addEventListener('pointermove', event => {
      const at = from && panel.positionOf(event.clientX);
      if (!from || at === null || Math.abs(event.clientX - from.clientX) < LEAST_DRAG) return;
      if (!choices.isDragging) panel.plot.setPointerCapture(event.pointerId);
      choices.isDragging = true;
      from.range = [Math.min(at, from.at), Math.max(at, from.at)];
      const [left, right] = from.range.map(panel.x.place);
      panel.picture.append(dress(frame, {x: left, width: right - left}, []));
    });
    panel.plot.addEventListener('pointerup', () => {
      const range = from && from.range;
      end();
      if (range) zoomTo(range);
    });
    panel.plot.addEventListener('pointercancel', end);
    panel.plot.addEventListener('dblclick', () => zoomTo(null));
  }
  document.getElementById('zoom-reset').addEventListener('click', () => zoomTo(null));
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && choices.zoom) zoomTo(null);
  });
}

// Tells which part is shown.
function showZoom({zoom, axis}) {
  const button = document.getElementById('zoom-reset');
  const {name, format} = AXES[axis];
  button.hidden = !zoom;
  document.getElementById('zoom-hint').hidden = Boolean(zoom);
  if (zoom) button.textContent = `${name} ${format(zoom[0])} to ${format(zoom[1])}: show all`;
}
