// Puts the page of a profile together: the memory of one rank over the time of a few steps.

const inSeconds = milliseconds => shortTime(milliseconds / 1000);
AXES.milliseconds = {
  name: 'time',
  format: inSeconds,
  short: inSeconds,
  ticks: linearTicks
};

function show() {
  const choices = new Choices(JSON.parse(document.getElementById('data').textContent).runs);
  choices.axis = 'milliseconds';
  const panels = choices.runs.map(run => new MemoryChart(document.getElementById('memory-charts'), choices, run));
  const draw = () => {
    for (const panel of panels) panel.draw();
    showZoom(choices);
  };
  addCrosshair(panels, choices);
  addZoom(panels, choices, draw);
  window.addEventListener('resize', draw);
  draw();
}

show();
