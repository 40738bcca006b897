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

function swatch(kind, index) { return html('span', {class: `swatch ${kind}-${index % 8}`}); }
