// N-best lists, alone or beside those of another request with what differs marked; attention as a heat map.
import { el, short } from './dom.js';

const MOST_CELLS = 6000;
const REASONS = { EOS: 'end token', LENGTH: 'maximum length', DEADLINE: 'deadline', SHUTDOWN: 'server ended',
  END_OF_SOURCE: 'end of source', STOP: 'stop string' };

const reason = (hypothesis) => REASONS[hypothesis.finish_reason.replace('FINISH_REASON_', '')] ?? hypothesis.finish_reason;

/** Which of `mine` are in the longest common subsequence with `other`. */
export function common(mine, other) {
  const longest = Array.from({ length: mine.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = mine.length - 1; i >= 0; --i) {
    for (let j = other.length - 1; j >= 0; --j) {
      longest[i][j] = mine[i] === other[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const same = mine.map(() => false);
  for (let i = 0, j = 0; i < mine.length && j < other.length;) {
    if (mine[i] === other[j]) same[i++] = (j++, true);
    else if (longest[i + 1][j] >= longest[i][j + 1]) ++i;
    else ++j;
  }
  return same;
}

// The text, with those pieces marked that the other request's hypothesis of the same rank lacks.
function textCell(hypothesis, other) {
  if (hypothesis.text === '') return el('td.mono', {}, el('span.empty', {}, '(empty)'));
  if (!other || other.text === hypothesis.text) return el('td.mono', {}, hypothesis.text);
  const split = (text) => (/\s/.test(text) ? text.split(/(\s+)/) : [...text]);
  const pieces = split(hypothesis.text);
  const same = common(pieces, split(other.text));
  return el('td.mono', {}, pieces.map((piece, index) => (same[index] || /^\s+$/.test(piece) ? piece : el('mark', {}, piece))));
}

function comparison(hypothesis, rank, others) {
  const at = others.findIndex((other) => other.text === hypothesis.text);
  if (at < 0) return el('td', {}, el('span.badge', {}, 'only here'));
  const by = hypothesis.score - others[at].score;
  const moved = at === rank ? 'same rank' : `rank ${at + 1} there`;
  return el('td', {}, `${moved}${by === 0 ? ', same score' : `, ${by > 0 ? '+' : ''}${short(by)}`}`);
}

/** `others`: hypotheses of the request beside it, if there is one. `onpick(index)`: one is looked at. */
export function answerTable(decoded, { others, picked, onpick, name }) {
  // Beside another list there is less room.
  const heads = others ? ['#', 'text', 'score', 'beside the other', 'ended by'] : ['#', 'text', 'score', 'log-prob', 'tokens', 'ended by'];
  const rows = decoded.hypotheses.map((hypothesis, rank) => el('tr', { 'aria-current': rank === picked ? 'true' : undefined },
    el('td.number', {}, el('button.rank', { type: 'button', 'aria-label': `Attention of hypothesis ${rank + 1}`,
      onclick: () => onpick(rank) }, String(rank + 1))),
    textCell(hypothesis, others?.[rank]),
    el('td.number', { title: String(hypothesis.score) }, short(hypothesis.score, 4)),
    others ? comparison(hypothesis, rank, others) : [el('td.number', { title: String(hypothesis.log_prob) }, short(hypothesis.log_prob, 4)),
      el('td.number', {}, String(hypothesis.tokens.length))],
    el('td', {}, reason(hypothesis))));
  if (rows.length === 0) return el('p.notice', {}, 'No hypothesis: score_threshold left none.');
  return el('div.scroll-x', { tabindex: 0, role: 'region', 'aria-label': `Hypotheses: ${name}` },
    el('table.answer', {}, el('thead', {}, el('tr', {}, heads.map((text) => el('th', { scope: 'col' }, text)))), el('tbody', {}, rows)));
}

/** Labels of the source's positions, as far as they are known. */
export function sourceLabels(request, config, length) {
  const pieces = request.kind === 'ids' ? request.source.split(/[\s,]+/).filter(Boolean) : request.kind !== 'text' ? [] :
    config?.source?.form === 'TEXT_FORM_CHARACTERS' ? [...request.source] : request.source.split(/\s+/).filter(Boolean);
  return pieces.length === length ? pieces : Array.from({ length }, (_, index) => String(index + 1));
}

function targetLabels(hypothesis, rows) {
  const words = hypothesis.text.split(/\s+/).filter(Boolean);
  const characters = [...hypothesis.text];
  return Array.from({ length: rows }, (_, index) => {
    const pieces = [words, characters].find((list) => list.length === rows || list.length === rows - 1);
    return pieces?.[index] ?? (pieces ? 'end' : `#${hypothesis.tokens[index]}`);
  });
}

/** A table of weights, a row for each token; null where the answer has none. */
export function heatMap(hypothesis, labels, name) {
  const { rows = 0, columns = 0, values = [] } = hypothesis.attention ?? {};
  if (rows * columns === 0) return null;
  const shown = Math.min(rows, Math.max(1, Math.floor(MOST_CELLS / columns)));
  const names = targetLabels(hypothesis, rows);
  const body = Array.from({ length: shown }, (_, row) => el('tr', {}, el('th', { scope: 'row' }, names[row]),
    Array.from({ length: columns }, (__, column) => {
      const weight = values[row * columns + column];
      const cell = el('td.heat', { title: `${names[row]} from ${labels[column]}: ${weight.toFixed(3)}` },
        columns <= 24 ? weight.toFixed(2).replace(/^0/, '') : '');
      cell.style.setProperty('--weight', weight.toFixed(3));
      return cell;
    })));
  const head = el('tr', {}, el('td'), labels.map((label) => el('th', { scope: 'col' }, label)));
  return el('div', {}, el('p.help', {}, 'Each row is a token of the answer; the columns say how much it looked at each position of the source.'),
    el('div.scroll-x', { tabindex: 0, role: 'region', 'aria-label': `Weights: ${name}` },
      el('table.heatmap', {}, el('thead', {}, head), el('tbody', {}, body))),
    shown < rows ? el('p.help', {}, `The first ${shown} of ${rows} tokens.`) : null);
}
