// Puts the page together and draws it again when something is chosen.

const CHARTS = [
  {
    id: 'loss',
    series: ['loss', 'validation_loss'],
    title: 'Loss',
    unit: 'nats per token; dashed: validation',
    format: 'number',
    isWide: true
  },
  {
    id: 'late-loss',
    series: ['loss', 'validation_loss'],
    title: 'Loss, second half',
    unit: 'nats per token',
    format: 'number',
    fromShare: 0.5
  },
  {id: 'grad_norm', series: ['grad_norm'], title: 'Gradient norm', unit: 'before clipping', format: 'number'},
  {id: 'lr', series: ['lr'], title: 'Learning rate', format: 'number', exact: true, fromZero: true},
  {
    id: 'throughput',
    series: ['tokens_per_second'],
    title: 'Throughput',
    unit: 'tokens/s',
    format: 'count',
    fromZero: true
  },
  {id: 'step-time', series: ['step_seconds'], title: 'Step time', format: 'time', fromZero: true},
  {
    id: 'mfu',
    series: ['mfu'],
    title: 'MFU',
    unit: 'model FLOPs utilisation, of the measured peak',
    format: 'percent',
    fromZero: true
  },
  {
    id: 'outside',
    series: ['outside_seconds'],
    title: 'Data and logging',
    unit: 'of a step',
    format: 'time',
    fromZero: true
  },
  {
    id: 'waits',
    series: ['wait_seconds'],
    title: 'Waits for other ranks',
    unit: 'in a step',
    format: 'time',
    fromZero: true
  },
  {id: 'loss-scale', series: ['loss_scale'], title: 'Loss scale', format: 'count', exact: true, fromZero: true},
];

// The second half of a curve of few points says no more than the whole.
function isWorthShowing(spec, runs) {
  const fewest = spec.fromShare ? 20 : 1;
  return runs.some(run => run.step.length >= fewest && spec.series.some(name => run.series[name]));
}

function addLegend(choices, draw) {
  if (choices.runs.length < 2) return;
  for (const run of choices.runs) {
    const box = html('input', {type: 'checkbox'});
    box.checked = run.isVisible;
    box.addEventListener('change', () => {
      run.isVisible = box.checked;
      draw();
    });
    document.getElementById('legend').append(
        html('label', {class: 'choice'}, box, html('span', {}, swatch('run', run.index), run.name)));
  }
}

// The elements that hold a choice show it, and change it.
function addControls(choices, draw) {
  document.getElementById('axis').value = choices.axis;
  document.getElementById('smoothing').value = choices.smoothing;
  document.getElementById('outliers').checked = choices.outliers;
  listen('axis', 'change', select => {
    choices.axis = select.value;
    choices.zoom = null;  // its ends are of the other axis
    draw();
  });
  listen('smoothing', 'input', range => {
    choices.smoothing = Number(range.value);
    draw();
  });
  listen('outliers', 'change', box => {
    choices.outliers = box.checked;
    draw();
  });
}

function show() {
  const choices = new Choices(JSON.parse(document.getElementById('data').textContent).runs);
  const panels = [];
  const draw = () => {
    document.getElementById('memory').hidden = !choices.visible.some(run => stackOf(run).length > 0);
    for (const panel of panels) panel.draw();
    showZoom(choices);
    choices.keep();
  };
  const charts = document.getElementById('charts');
  for (const spec of CHARTS.filter(one => isWorthShowing(one, choices.runs)))
    panels.push(new Chart(charts, choices, spec, draw));
  const memory = document.getElementById('memory-charts');
  for (const run of choices.runs) panels.push(new MemoryChart(memory, choices, run));
  addCrosshair(panels, choices);
  addZoom(panels, choices, draw);
  addLegend(choices, draw);
  addControls(choices, draw);
  addSettings();
  addCopying();
  addReload(choices);
  window.addEventListener('resize', draw);
  draw();
}

show();
