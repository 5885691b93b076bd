// A search as its trace tells it: every candidate of a step, the parts of its rank and why it was dropped.
import { Search } from './search.js';

// [what the tree draws, what is said of it], by TraceFate.
const FATES = {
  KEPT: ['live', ''],
  ANSWER: ['finished', ''],
  REPLACED: ['finished', 'better ones took its place in the answer later'],
  STOPPED: ['live', 'the search stopped here'],
  BEAM: ['dropped', 'the beam was full of candidates that rank above it'],
  BEAM_THRESHOLD: ['dropped', 'further below the best than beam_threshold allows'],
  END_BELOW_BEAM: ['dropped', 'an end token below as many candidates as the beam holds'],
  END_THRESHOLD: ['dropped', 'an end token that end_threshold did not allow'],
  IMPOSSIBLE: ['dropped', 'ruled out here: its probability is 0'],
  END_OF_ALTERNATIVE: ['dropped', 'the first token of an alternative is not an end token'],
  ALTERNATIVE_MIN_PROB: ['dropped', 'less probable than alternative_min_prob'],
  ALTERNATIVE_DONE: ['dropped', 'its alternative had its answer already'],
  SCORE_THRESHOLD: ['dropped', 'it ended with a score below score_threshold'],
  NOT_LISTED: ['dropped', 'it ended, but n_best others stood above it'],
  INCOMPLETE: ['dropped', 'at the maximum length without all that it must contain'],
};

// What adds up to the rank, beside the sum; zeros are left out.
function partsOf(candidate, row, scorers) {
  const bonus = Number(candidate.token_score) - Number(candidate.log_prob);
  const parts = [['rewards so far', row.reward], ['scorers so far', row.fused], ['lent by hotwords', row.offset],
    ['added to the token', bonus], ['diversity', candidate.diversity],
    ...scorers.map((name, index) => [`${name} log-prob`, candidate.scorer_log_probs?.[index]])].filter(([, value]) => value);
  parts.push(['rank score', Number(candidate.rank_score)]);
  if (candidate.rank) parts.push(['rank', String(candidate.rank)]);
  if (candidate.score !== undefined && candidate.score !== null) parts.push(['score', candidate.score]);
  if (candidate.answer) parts.push(['place in the answer', String(candidate.answer)]);
  return parts;
}

function nodeOf(candidate, row, parent, trace) {
  const name = String(candidate.fate).replace('TRACE_FATE_', '');
  const [fate, reason] = FATES[name] ?? ['dropped', name.toLowerCase()];
  return { parent, token: candidate.token, label: trace.token_texts?.[candidate.token] ?? `#${candidate.token}`,
    logProb: Number(candidate.log_prob), sum: row.sum + Number(candidate.log_prob), fate, reason,
    parts: partsOf(candidate, row, trace.scorers ?? []) };
}

/** Of an answer with `trace`. */
export function searchOfTrace(decoded) {
  const { trace } = decoded;
  const search = new Search();
  search.truncated = Boolean(trace.truncated);
  let rows = [];  // the node that each row of the step continues; none in the first step
  for (const step of trace.steps) {
    const next = [];
    const nodes = step.candidates.map((candidate) => {
      const node = nodeOf(candidate, step.rows[candidate.row], rows[candidate.row] ?? null, trace);
      if (candidate.fate === 'TRACE_FATE_KEPT') next[candidate.next_row ?? 0] = node;
      return node;
    });
    nodes.omitted = step.num_omitted ?? 0;
    rows = next;
    search.addStep(nodes);
  }
  return search.finish(decoded.hypotheses[0]);
}
