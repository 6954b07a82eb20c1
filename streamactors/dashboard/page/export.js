// Export: the state as JSON, a drawing as SVG or PNG. Colours are copied into the drawing, since it leaves the style sheet.

import { html, svg } from "./dom.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "display", "opacity"];
const MOST_SIDE = 16000; // of a canvas
const MOST_AREA = 100e6;
const NOT_XML = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The drawing as a document of its own, at its full size and with the page's background. Names may have characters that XML has not.
function drawn(source) {
  const copy = source.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [source, ...source.querySelectorAll("*")].forEach((node, index) => {
    const style = getComputedStyle(node);
    for (const name of STYLES) copies[index].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = source.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(svg("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
  return { text: new XMLSerializer().serializeToString(copy).replace(NOT_XML, "\uFFFD"), width, height };
}

export const saveJson = (state) => save(new Blob([JSON.stringify(state, null, 1)], { type: "application/json" }), `streamactors-${state.at_ms}.json`);

export const saveSvg = (source, name) => save(new Blob([drawn(source).text], { type: "image/svg+xml" }), `${name}.svg`);

export async function savePng(source, name) {
  const { text, width, height } = drawn(source);
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  await image.decode();
  const scale = Math.min(2, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_AREA / (width * height)));
  const canvas = html("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => save(blob, `${name}.png`), "image/png");
}
