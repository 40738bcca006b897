// Puts the page together and draws it again when something is chosen.

const CHARTS = [
  {
    series: ['loss', 'validation_loss'],
    title: 'Loss',
    unit: 'nats a token; dashed: held-back text',
    format: 'number',
    wide: true
  },
  {series: ['grad_norm'], title: 'Gradient norm', unit: 'before clipping', format: 'number'},
  {series: ['lr'], title: 'Learning rate', format: 'number', exact: true, fromZero: true},
  {series: ['tokens_per_second'], title: 'Throughput', unit: 'tokens/s', format: 'count', fromZero: true},
  {series: ['step_seconds'], title: 'Time of a step', format: 'time', fromZero: true},
  {series: ['mfu'], title: 'Model FLOPs utilisation', unit: 'of the measured peak', format: 'percent', fromZero: true},
  {
    series: ['outside_seconds'],
    title: 'Data and logging',
    unit: 'outside forward, backward and optimizer',
    format: 'time',
    fromZero: true
  },
  {series: ['wait_seconds'], title: 'Waits for other ranks', unit: 'in a step', format: 'time', fromZero: true},
  {series: ['loss_scale'], title: 'Loss scale', format: 'count', exact: true, fromZero: true},
];

function visibleRuns(state) { return state.runs.filter(run => run.isVisible); }

function addLegend(state, draw) {
  if (state.runs.length < 2) return;
  for (const run of state.runs) {
    const box = html('input', {type: 'checkbox', checked: ''});
    box.addEventListener('change', () => {
      run.isVisible = box.checked;
      draw();
    });
    document.getElementById('legend').append(
        html('label', {class: 'choice'}, box, html('span', {}, swatch('run', run.index), run.name)));
  }
}

function listen(id, event, change) {
  const element = document.getElementById(id);
  if (element) element.addEventListener(event, () => change(element));
}

function show() {
  const state = {
    runs: JSON.parse(document.getElementById('data').textContent).runs,
    axis: 'step',
    smoothing: 0.6,
    outliers: false
  };
  state.runs.forEach((run, index) => Object.assign(run, {index, isVisible: true}));
  const specs = CHARTS.filter(spec => state.runs.some(run => spec.series.some(name => run.series[name])));
  const charts = specs.map(spec => new Chart(document.getElementById('charts'), spec, state));
  const draw = () => {
    for (const chart of charts) chart.draw();
    drawMemory(document.getElementById('memory-charts'), state);
  };
  addLegend(state, draw);
  listen('axis', 'change', select => {
    state.axis = select.value;
    draw();
  });
  listen('smoothing', 'input', range => {
    state.smoothing = Number(range.value);
    draw();
  });
  listen('outliers', 'change', box => {
    state.outliers = box.checked;
    draw();
  });
  listen(
      'only-differences', 'change',
      box => document.getElementById('settings').classList.toggle('only-differences', box.checked));
  window.addEventListener('resize', draw);
  draw();
}

show();
