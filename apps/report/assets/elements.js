// Elements of the page. Text enters it as text alone, never as markup.

const SVG = document.getElementById('pencil').namespaceURI;

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function html(tag, attributes = {}, ...children) { return dress(document.createElement(tag), attributes, children); }

function svg(tag, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

// Runs beyond the eighth have the colours of the first ones again.
function colourOf(kind, index) { return `${kind}-${kind === 'run' ? index % 8 : index}`; }

function swatch(kind, index) { return html('span', {class: `swatch ${colourOf(kind, index)}`}); }
