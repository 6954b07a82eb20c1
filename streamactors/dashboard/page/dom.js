// Elements of the page. Strings reach the page through textContent and setAttribute only, so that no name or value is markup. Characters that
// are not seen, or that turn the direction of what follows them, are shown as a replacement character: a name cannot look like another one.

const SVG = "http://www.w3.org/2000/svg";

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const seen = (text) => String(text).replace(UNSEEN, "\ufffd");

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = seen(value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

// Writes a text only where it changed: an equal text costs no layout and is not read aloud again.
export function write(node, text) {
  const shown = seen(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function mark(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

// A label with its input, which stay together where a line breaks.
export const field = (id, label, input) => html("span", { class: "field" }, html("label", { for: id, text: label }), input);

// Gives a select its options, [[value, text]], and keeps what was selected. Nothing happens where they are the same.
export function choices(select, wanted) {
  const key = JSON.stringify(wanted);
  if (select.dataset.key === key) return;
  const before = select.value;
  select.dataset.key = key;
  select.replaceChildren(...wanted.map(([value, text]) => html("option", { value, text })));
  if (wanted.some(([value]) => value === before)) select.value = before;
}
