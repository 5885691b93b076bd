// What a search did, step by step, as nodes: one for each hypothesis that a step made or dropped.

/** Fates of a node: 'live' went on, 'finished' ended with an end token, 'dropped' was considered and left. */
export class Search {
  constructor() {
    this.steps = [];  // lists of nodes, best first
    this.size = 0;
  }

  addStep(nodes) {
    const step = this.steps.length;
    nodes.forEach((node, row) => Object.assign(node, { id: this.size++, step, row, until: step, ended: Infinity, children: 0, best: false }));
    this.steps.push(nodes);
  }

  /** To be called once all steps are there: how far each node's descendants live, and which are the answer's. */
  finish(answer) {
    for (let step = this.steps.length - 1; step >= 0; --step) {
      for (const node of this.steps[step]) {
        if (node.fate === 'finished') node.ended = Math.min(node.ended, step);
        if (node.parent && node.fate !== 'dropped') {
          node.parent.children += 1;
          node.parent.until = Math.max(node.parent.until, node.until);
          node.parent.ended = Math.min(node.parent.ended, node.ended);
        }
      }
    }
    for (const nodes of this.steps) {
      for (const node of nodes) {
        if (node.fate === 'live' && node.children === 0 && node.step + 1 < this.steps.length && !node.reason) {
          node.reason = `given up: no continuation was kept in step ${node.step + 2}`;
        }
      }
    }
    this.#markBest(answer);
    return this;
  }

  /** Whether a node belongs to a hypothesis that lives, or has finished, when `step` is done. */
  static holds(node, step) {
    return node.fate !== 'dropped' && (node.until >= step || node.ended <= step);
  }

  #markBest(answer) {
    const wanted = answer ? answer.tokens.slice(answer.prefix_length ?? 0) : [];
    for (const node of this.steps[wanted.length - 1] ?? []) {
      const path = node.fate === 'dropped' ? [] : pathOf(node);
      if (path.length === wanted.length && path.every((one, index) => one.token === wanted[index])) {
        for (const one of path) one.best = true;
        return;
      }
    }
  }
}

/** From the first token to the node. */
export function pathOf(node) {
  const path = [];
  for (let at = node; at; at = at.parent) path.push(at);
  return path.reverse();
}

export const textOf = (node, separator) => pathOf(node).map((one) => one.label).join(separator);

/** Texts of tokens as far as the answer's hypotheses tell them. */
function textsOfTokens(decoded, config) {
  const texts = new Map();
  const form = config?.target?.form;
  const split = form === 'TEXT_FORM_CHARACTERS' ? (text) => [...text] : (text) => text.split(/\s+/).filter(Boolean);
  for (const { tokens, text, finish_reason: reason } of decoded.hypotheses) {
    const ends = reason === 'FINISH_REASON_EOS';
    const pieces = split(text);
    const body = ends ? tokens.slice(0, -1) : tokens;
    if (pieces.length === body.length) body.forEach((token, index) => texts.set(token, pieces[index]));
    if (ends) texts.set(tokens.at(-1), config?.target?.end_tokens?.[0] ?? '(end)');
  }
  return texts;
}

/** Of an answer with `lattice`. */
export function searchOfLattice(decoded, config) {
  const texts = textsOfTokens(decoded, config);
  const search = new Search();
  let live = [];
  for (const { parents, tokens, log_probs: logProbs, num_live: numLive } of decoded.lattice.steps) {
    const nodes = tokens.map((token, index) => {
      const parent = live[parents[index]] ?? null;
      return { parent, token, label: texts.get(token) ?? `#${token}`, logProb: logProbs[index],
        sum: (parent?.sum ?? 0) + logProbs[index], fate: index < numLive ? 'live' : 'finished', reason: '' };
    });
    live = nodes.slice(0, numLive);
    search.addStep(nodes);
  }
  return search.finish(decoded.hypotheses[0]);
}

