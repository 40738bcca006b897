// A panel as a file: its picture as SVG or PNG, its numbers as CSV.

const STYLES = [
  'fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'opacity', 'font-family', 'font-size',
  'font-weight', 'text-anchor'
];
const HEAD = 34;  // pixels above the picture, for its title

// Hands the bytes to the browser, which saves them.
function save(name, blob) {
  const link = html('a', {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// What the page's style says of each element, written into its copy: a file has no such style.
function copyStyle(from, to) {
  const style = getComputedStyle(from);
  for (const name of STYLES) to.setAttribute(name, style.getPropertyValue(name));
  to.removeAttribute('class');
  [...from.children].forEach((child, i) => copyStyle(child, to.children[i]));
}

// The picture with its title and the names of its curves, as a file's text.
function standalone(panel) {
  const picture = panel.picture.cloneNode(true);
  copyStyle(panel.picture, picture);
  picture.lastChild.remove();  // the crosshair
  dress(picture, {y: HEAD, width: panel.width, height: HEIGHT}, []);
  const style = getComputedStyle(panel.figure);
  const text = {fill: style.color, 'font-family': style.fontFamily, y: 22};
  const whole = svg('svg', {width: panel.width, height: HEIGHT + HEAD});
  whole.append(
      svg('rect', {width: '100%', height: '100%', fill: style.backgroundColor}),
      svg('text', {...text, x: 12, 'font-size': 14, 'font-weight': 600}, panel.name), picture);
  let right = panel.width - 12;
  for (const {kind, index, name} of panel.legend().reverse()) {
    const colour = getComputedStyle(document.documentElement).getPropertyValue(`--${colourOf(kind, index)}`);
    whole.append(svg('text', {...text, x: right, 'font-size': 12, 'text-anchor': 'end', fill: colour}, name));
    right -= 7 * name.length + 16;
  }
  return new XMLSerializer().serializeToString(whole);
}

function savePng(panel, name) {
  const times = 2;
  const image = new Image();
  image.onload = () => {
    const canvas = html('canvas', {width: times * image.width, height: times * image.height});
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => save(`${name}.png`, blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(panel))}`;
}

function csvOf(rows) {
  const cell = value => value === null || value === undefined ? '' :
      /[",\n]/.test(String(value))                            ? `"${String(value).replaceAll('"', '""')}"` :
                                                                String(value);
  return rows.map(row => row.map(cell).join(',')).join('\n') + '\n';
}

function addExport(panel) {
  const kinds = {
    PNG: name => savePng(panel, name),
    SVG: name => save(`${name}.svg`, new Blob([standalone(panel)], {type: 'image/svg+xml'})),
    CSV: name => save(`${name}.csv`, new Blob([csvOf(panel.table())], {type: 'text/csv'})),
  };
  const entries = Object.entries(kinds).map(([kind, write]) => {
    const button = html('button', {type: 'button', 'data-kind': kind}, kind);
    button.addEventListener('click', () => {
      menu.open = false;
      const runs = panel.choices.visible.map(run => run.name).join('-');
      write(`${runs}-${panel.id}`.replace(/[^\w.-]+/g, '-').slice(0, 100));
    });
    return button;
  });
  const menu = html(
      'details', {class: 'menu'}, html('summary', {title: 'save this chart'}, 'save'), html('div', {}, ...entries));
  document.addEventListener('click', event => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  panel.buttons.append(menu);
}
