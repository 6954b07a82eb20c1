// Worker: arranges stages in layers, across or down, whichever fits the screen better. Reply: { key, width, height, nodes, edges, islands }.

import { Graph, layout } from "./vendor/dagre.esm.js";

export const WIDTH = 188;
export const HEIGHT = 76;
const LABEL = 72;
const NARROW = 600;

function arranged({ nodes, edges }, rankdir) {
  const graph = new Graph({ compound: true });
  graph.setGraph({ rankdir, nodesep: 22, ranksep: rankdir === "LR" ? 28 : 40, marginx: 16, marginy: 26 });
  graph.setDefaultEdgeLabel(() => ({}));
  const islands = new Set(nodes.map((node) => node.island));
  if (islands.size > 1) for (const island of islands) graph.setNode(`i${island}`, {});
  for (const node of nodes) {
    graph.setNode(String(node.id), { width: WIDTH, height: HEIGHT });
    if (islands.size > 1) graph.setParent(String(node.id), `i${node.island}`);
  }
  for (const edge of edges) graph.setEdge(String(edge.source), String(edge.target), rankdir === "LR" ? { width: LABEL, height: 48, labelpos: "c" } : { width: 1, height: 30, labelpos: "c" });
  layout(graph);
  const box = (id) => { const { x, y, width, height } = graph.node(id); return { x: x - width / 2, y: y - height / 2, width, height }; };
  const size = graph.graph();
  return {
    width: size.width, height: size.height,
    nodes: nodes.map((node) => ({ id: node.id, ...box(String(node.id)) })),
    edges: edges.map((edge) => {
      const { points, x, y } = graph.edge(String(edge.source), String(edge.target));
      return { ...edge, points, x, y, across: rankdir === "LR" };
    }),
    islands: islands.size > 1 ? [...islands].map((island) => ({ island, ...box(`i${island}`) })) : [],
  };
}

self.onmessage = ({ data }) => {
  const found = (data.width < NARROW ? ["TB"] : ["LR", "TB"]).map((direction) => arranged(data, direction));
  const scale = (each) => Math.min(1, data.width / each.width, data.height / each.height);
  found.sort((a, b) => scale(b) - scale(a));
  self.postMessage({ key: data.key, ...found[0] });
};
