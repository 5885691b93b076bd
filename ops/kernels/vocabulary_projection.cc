// The last product of a step and the choice of its best tokens in one, panel by panel. The scores
// of 100 rows and 100,000 tokens are 40 MB, which would be written and read again; a panel of
// kScanPanel columns stays in the cache.
//
// Scan:
// 1. FindRuns: rows are split into runs that share an allowed set. A set that is a small part of
//    the vocabulary gets a weight of its columns alone (ColumnPicks); other rows have no such
//    weight.
// 2. ScanAll, for rows over the whole vocabulary. Plan decides which rows need a whole line of
//    scores. Chunks of panels and tiles of rows are shared among threads; each multiplies a panel
//    (RunPanel) and scans it (ScanTile, ScanPanel): bad scores, edits, the log-sum-exp of the
//    panel, watched tokens, and the best k + kSpare values of the chunk.
// 3. Finish, for each row: the chunks' best are merged, the panels' sums are joined in their order,
//    and TakeBest turns values into candidates. Where a panel's part is not enough, ScanWhole
//    computes the whole row and leaves it to ScanRow.
// 4. ScanPicked, for rows with a small allowed set: the product of its columns, and the scan of
//    these scores.
//
// Why kSpare: panels keep candidates by value, answers order them by rounded log-probability, and
// two values may round to the same. TakeBest checks that no token which was not kept could be among
// the k best, else the row is scanned whole.
#include "ops/kernels/vocabulary_projection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/step_profile.h"
#include "ops/base/vector_isa.h"
#include "ops/kernels/column_picks.h"
#include "ops/kernels/parallel.h"
#include "ops/kernels/tiles.h"

namespace beamwright::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// values[i] += bias[tokens[i]].
void AddPicked(const std::vector<float>& bias, absl::Span<const int32_t> tokens,
               absl::Span<float> values) {
  Vectorized([from = bias.data(), token = tokens.data(), to = values.data(),
              count = tokens.size()]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      to[i] += from[token[i]];
    }
  });
}

// Rows whose panel is computed at once: their scores and the panel's weights share the cache.
constexpr int64_t kTileRows = 112;

// The cost of a score besides its product, as ops/kernels/parallel.h counts it.
constexpr int64_t kWorkToScan = 64;

// Chunks of panels of a short scan: a few for each thread, so that no thread waits long for the
// last. From kMinLongScan on (some 700 us) each thread has one, since each chunk keeps a list of
// its best.
constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kMinLongScan = int64_t{1} << 26;

// Different scores may have equal log-probabilities once they are rounded, and equal ones are in
// the order of their tokens, not of their scores. So a few more scores are kept than candidates
// wanted.
constexpr size_t kSpare = 4;

// Shorter allowed sets come from constraints and change from step to step, so that a weight of
// their columns does not pay.
constexpr int64_t kFewestPicked = 64;

// With more edits or watched tokens than this, the whole row is scanned.
constexpr size_t kMostTokens = 64;

bool Outside(int32_t token, int64_t vocabulary) { return token < 0 || token >= vocabulary; }

// Whether log-probabilities are taken over all scores, and what is banned then has none.
bool BansBehindSum(const RowRules& rules) { return !rules.renormalize && !rules.edits.empty(); }

bool OnlyBans(absl::Span<const LogitEdit> edits) {
  return std::all_of(edits.begin(), edits.end(),
                     [](const LogitEdit& edit) { return edit.kind == EditKind::kBan; });
}

// Whether the rules need more than a panel holds; ScanRow also words the errors.
bool NeedsWholeRow(const RowRules& rules, int k, int64_t vocabulary) {
  const bool adds_to_all = static_cast<int64_t>(rules.added.size()) == vocabulary;
  const bool simple = !rules.has_allowed && rules.temperature == 1.0f && rules.bonuses.empty() &&
                      rules.draw.kind == DrawKind::kNone &&
                      (rules.added.empty() || (adds_to_all && rules.edits.empty())) &&
                      (rules.renormalize || OnlyBans(rules.edits)) && k >= 0 &&
                      rules.edits.size() <= kMostTokens && rules.watched.size() <= kMostTokens;
  return !simple || std::any_of(rules.edits.begin(), rules.edits.end(), [=](const LogitEdit& edit) {
    return Outside(edit.token, vocabulary);
  }) || std::any_of(rules.watched.begin(), rules.watched.end(), [=](int32_t token) {
    return Outside(token, vocabulary);
  });
}

// Whether the product is worth computing for the allowed set alone. Log-probabilities that are not
// renormalised need all scores, and of a broken model ScanRow names the first.
bool IsPicked(const RowRules& rules, int64_t vocabulary, absl::Span<const float> hidden) {
  const auto count = static_cast<int64_t>(rules.allowed.size());
  return rules.has_allowed && rules.renormalize && count >= kFewestPicked &&
         count * ColumnPicks::kLeastShare <= vocabulary &&
         !Outside(rules.allowed.front(), vocabulary) &&
         !Outside(rules.allowed.back(), vocabulary) &&
         std::all_of(hidden.begin(), hidden.end(), [](float x) { return std::isfinite(x); });
}

// Applies the edits that concern tokens [first, first + values.size()): bans last, so that no other
// edit lifts them. False: no edit concerns them.
bool Edit(absl::Span<const LogitEdit> edits, int64_t first, absl::Span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  bool any = false;
  for (const bool bans : {false, true}) {
    for (const LogitEdit& edit : edits) {
      const int64_t at = edit.token - first;
      if (at >= 0 && at < count && Bars(edit) == bans) {
        float& x = values[static_cast<size_t>(at)];
        x = ApplyEdit(edit, x);
        any = true;
      }
    }
  }
  return any;
}

// ScanRow over a whole row: `values` for the allowed tokens, -infinity for all others.
void ScanSpread(absl::Span<const float> values, int64_t vocabulary,
                VocabularyProjection::Row& row) {
  static thread_local std::vector<float> line;  // -infinity between two rows
  line.resize(std::max(line.size(), static_cast<size_t>(vocabulary)), -kInfinity);
  const absl::Span<const int32_t> tokens = row.rules->allowed;
  for (size_t i = 0; i < tokens.size(); ++i) {
    line[static_cast<size_t>(tokens[i])] = values[i];
  }
  RowRules rules = *row.rules;
  // All other tokens are barred by their scores; only an edit could give one of them another.
  rules.has_allowed = !OnlyBans(rules.edits);
  row.status = ScanRow({line.data(), static_cast<size_t>(vocabulary)}, ScoreKind::kLogits, rules,
                       row.k, *row.result);
  for (const int32_t token : tokens) {
    line[static_cast<size_t>(token)] = -kInfinity;
  }
}

bool Adds(const VocabularyProjection::Row& row) { return row.k > 0 && !row.rules->added.empty(); }

void AddTo(absl::Span<const float> values, absl::Span<const float> added, float* sums) {
  const float* const x = values.data();
  const float* const more = added.data();
  const size_t count = values.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      sums[i] = x[i] + more[i];
    }
  });
}

// The size of what is added, infinities aside.
float LargestOf(absl::Span<const float> added) {
  float largest = 0;
  for (const float more : added) {
    largest = std::max(largest, std::isinf(more) ? 0.0f : std::abs(more));
  }
  return largest;
}

// The k best by rank score, of k + kSpare that were kept by value. `scores`: of the whole row,
// where the rules add to them. False: one that was not kept may be among them.
bool TakeBest(const VocabularyProjection::Row& row, absl::Span<const TokenScore> kept,
              const float* scores, float largest_added, RowScan& result) {
  const auto k = static_cast<size_t>(row.k);
  const bool adds = Adds(row);
  for (const TokenScore& one : kept) {
    const auto token = static_cast<size_t>(one.token);
    const float log_prob = (adds ? scores[token] : one.value) - result.log_sum_exp;
    const float rank = adds ? log_prob + row.rules->added[token] : log_prob;
    result.best.push_back({one.token, log_prob, rank});
  }
  std::sort(result.best.begin(), result.best.end(), [](const Candidate& a, const Candidate& b) {
    return a.rank_score > b.rank_score || (a.rank_score == b.rank_score && a.token < b.token);
  });
  if (kept.size() == k + kSpare && k > 0) {
    // Others have at most the last one's value. Without additions rounding keeps the order of
    // values but for ties; a sum that is rounded otherwise may change it a little more.
    const float last = kept.back().value;
    const float slack =
        adds ? (std::abs(last) + std::abs(result.log_sum_exp) + largest_added) * 0x1p-20f : 0.0f;
    if (result.best[k - 1].rank_score <= last - result.log_sum_exp + slack) {
      return false;
    }
  }
  result.best.resize(std::min(result.best.size(), k));
  return true;
}

}  // namespace

VocabularyProjection::VocabularyProjection(std::shared_ptr<const PackedMatMul> weight,
                                           std::vector<float> bias)
    : weight_(std::move(weight)),
      bias_(std::move(bias)),
      panels_((weight_->columns() + kScanPanel - 1) / kScanPanel) {
  BW_CHECK(bias_.empty() || static_cast<int64_t>(bias_.size()) == weight_->columns());
}

void VocabularyProjection::RunPanel(StepProfile* profile,
                                    const PackedMatMul::Activations& activations, int64_t first_row,
                                    int64_t panel, Matrix<float> out) const {
  const PhaseScope phase(profile, Phase::kProducts);
  const int64_t column = panel * kScanPanel;
  weight_->RunPanel(activations, first_row, column, {}, out);
  if (bias_.empty()) {
    return;
  }
  // Behind the product, as the graph has it.
  const float* const bias = bias_.data() + column;
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (int64_t row = 0; row < out.rows; ++row) {
      float* const to = out.row(row);
      for (int64_t n = 0; n < out.columns; ++n) {
        to[n] = to[n] + bias[n];
      }
    }
  });
}

void VocabularyProjection::Scores(const ExecutionContext& context, ConstMatrix<float> hidden,
                                  Matrix<float> out) const {
  static thread_local PackedMatMul::Activations kept;
  PackedMatMul::Activations& activations = kept;  // the calling thread's, in all of them
  weight_->Prepare(context.num_threads, hidden, activations);
  const int threads = SharingFor(context.num_threads, weight_->Work(hidden.rows));
  const int64_t tile_rows = SharedTile(hidden.rows, kTileRows, panels_, threads);
  const int64_t tiles = CeilDiv(hidden.rows, tile_rows);
  ParallelFor(threads, tiles * panels_, [&](int64_t item) {
    const int64_t row = item % tiles * tile_rows;
    const int64_t panel = item / tiles;
    const int64_t column = panel * kScanPanel;
    RunPanel(context.profile, activations, row, panel,
             {out.row(row) + column, std::min(tile_rows, hidden.rows - row),
              std::min(kScanPanel, vocabulary() - column), out.stride});
  });
}

void VocabularyProjection::Plan(absl::Span<const Row> rows, int64_t first_row, int64_t num_rows,
                                int64_t chunks, Scratch& scratch) const {
  const size_t count = rows.size();
  const size_t num_parts = count * static_cast<size_t>(chunks);
  scratch.parts.resize(std::max(scratch.parts.size(), num_parts));
  scratch.sums.resize(std::max(scratch.sums.size(), count * static_cast<size_t>(panels_)));
  scratch.full_line.assign(count, -1);
  scratch.is_whole.assign(count, false);
  scratch.largest_added.assign(count, 0);
  scratch.first_watched.assign(count, 0);
  int64_t num_full = 0;
  size_t num_watched = 0;
  const auto end = static_cast<size_t>(first_row + num_rows);
  for (auto i = static_cast<size_t>(first_row); i < end; ++i) {
    const bool is_whole = NeedsWholeRow(*rows[i].rules, rows[i].k, vocabulary());
    if (is_whole || Adds(rows[i])) {
      scratch.full_line[i] = num_full++;
    }
    if (!is_whole && Adds(rows[i])) {
      // Rows of one request have the same additions.
      const absl::Span<const float> added = rows[i].rules->added;
      const bool is_same = i > static_cast<size_t>(first_row) && !scratch.is_whole[i - 1] &&
                           Adds(rows[i - 1]) && rows[i - 1].rules->added.data() == added.data();
      scratch.largest_added[i] = is_same ? scratch.largest_added[i - 1] : LargestOf(added);
    }
    scratch.is_whole[i] = is_whole;
    if (!is_whole) {
      scratch.first_watched[i] = num_watched;
      num_watched += rows[i].rules->watched.size();
    }
  }
  const auto scores = static_cast<size_t>(num_full * vocabulary());
  scratch.full.resize(std::max(scratch.full.size(), scores));
  scratch.watched.resize(std::max(scratch.watched.size(), num_watched));
  for (size_t i = 0; i < num_parts; ++i) {
    scratch.parts[i].best.clear();
    scratch.parts[i].bad = false;
  }
}

void VocabularyProjection::ScanPanel(const Row& row, int64_t panel, absl::Span<float> values,
                                     Scratch::Part& part, PanelSum& sum, float* watched) const {
  const int64_t first = panel * kScanPanel;
  const size_t blocks = (values.size() + kScanBlock - 1) / kScanBlock;
  float maxima[kBlocksPerPanel];
  const auto is_bad = [&] {
    return std::find(maxima, maxima + blocks, kInfinity) != maxima + blocks;
  };
  BlockMaxima(values, maxima);
  // Looked at before any edit: a rule that bans the token must not hide a broken model.
  part.bad = part.bad || is_bad();
  // 2. Edits, and the panel's log-sum-exp before or after them (BansBehindSum).
  const auto sum_up = [&] {
    sum = part.bad ? PanelSum() : SumPanel(values, *std::max_element(maxima, maxima + blocks));
  };
  if (BansBehindSum(*row.rules)) {
    sum_up();
  }
  if (Edit(row.rules->edits, first, values)) {
    BlockMaxima(values, maxima);
    part.bad = part.bad || is_bad();
  }
  if (part.bad) {
    return;
  }
  if (!BansBehindSum(*row.rules)) {
    sum_up();
  }
  // 3. Watched tokens.
  for (size_t i = 0; i < row.rules->watched.size(); ++i) {
    const int64_t at = row.rules->watched[i] - first;
    if (at >= 0 && at < static_cast<int64_t>(values.size())) {
      watched[i] = values[static_cast<size_t>(at)];
    }
  }
  if (row.k == 0) {
    return;
  }
  // 4. The best: by value, or by value and what the rules add to it.
  float ranks[kScanPanel];
  if (Adds(row)) {
    AddTo(values, row.rules->added.subspan(static_cast<size_t>(first)), ranks);
    values = {ranks, values.size()};
    BlockMaxima(values, maxima);
    part.bad = is_bad();
    if (part.bad) {
      return;
    }
  }
  // 5. Blocks whose largest value is below all that are kept are skipped.
  const size_t most = static_cast<size_t>(row.k) + kSpare;
  for (size_t block = 0; block < blocks; ++block) {
    if (maxima[block] == -kInfinity ||
        (part.best.size() == most && maxima[block] <= part.best.back().value)) {
      continue;
    }
    const size_t begin = block * kScanBlock;
    KeepBest(values.subspan(begin, kScanBlock),
             static_cast<int32_t>(first) + static_cast<int32_t>(begin), most, part.best);
  }
}

void VocabularyProjection::ScanTile(absl::Span<const Row> rows, int64_t first_row, int64_t panel,
                                    int64_t chunk, int64_t chunks, Matrix<float> scores,
                                    Scratch& scratch) const {
  for (int64_t r = 0; r < scores.rows; ++r) {
    const int64_t row = first_row + r;
    const auto at = static_cast<size_t>(row);
    const int64_t line = scratch.full_line[at];
    if (line >= 0) {
      std::copy_n(scores.row(r), scores.columns,
                  scratch.full.data() + line * vocabulary() + panel * kScanPanel);
    }
    if (scratch.is_whole[at]) {
      continue;
    }
    ScanPanel(rows[at], panel, scores.row_span(r),
              scratch.parts[static_cast<size_t>(row * chunks + chunk)],
              scratch.sums[static_cast<size_t>(row * panels_ + panel)],
              scratch.watched.data() + scratch.first_watched[at]);
  }
}

absl::Status VocabularyProjection::ScanWhole(const Row& row, int64_t index,
                                             Scratch& scratch) const {
  int64_t line = scratch.full_line[static_cast<size_t>(index)];
  if (line < 0) {
    line = 0;
    static thread_local std::vector<float> scores;
    scores.resize(std::max(scores.size(), static_cast<size_t>(vocabulary())));
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t column = panel * kScanPanel;
      const int64_t width = std::min(kScanPanel, vocabulary() - column);
      RunPanel(scratch.profile, scratch.activations, index, panel,
               {scores.data() + column, 1, width, width});
    }
    return ScanRow({scores.data(), static_cast<size_t>(vocabulary())}, ScoreKind::kLogits,
                   *row.rules, row.k, *row.result);
  }
  return ScanRow({scratch.full.data() + line * vocabulary(), static_cast<size_t>(vocabulary())},
                 ScoreKind::kLogits, *row.rules, row.k, *row.result);
}

absl::Status VocabularyProjection::Finish(const Row& row, int64_t index, int64_t chunks,
                                          Scratch& scratch) const {
  const auto at = static_cast<size_t>(index);
  Scratch::Part* const parts = scratch.parts.data() + index * chunks;
  bool whole = scratch.is_whole[at];
  const size_t most = static_cast<size_t>(std::max(row.k, 0)) + kSpare;
  // 1. The best of all chunks. Later chunks have higher tokens, so that equal values stay in order.
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    whole = whole || parts[chunk].bad;
    for (const TokenScore& kept : parts[chunk].best) {
      if (chunk > 0) {
        KeepBest({&kept.value, 1}, kept.token, most, parts[0].best);
      }
    }
  }
  if (whole) {
    return ScanWhole(row, index, scratch);
  }
  // 2. The log-sum-exp, panel after panel: its bits depend on no chunk.
  RowScan& result = *row.result;
  result.best.clear();
  result.watched.clear();
  PanelJoin join;
  for (int64_t panel = 0; panel < panels_; ++panel) {
    join.Add(scratch.sums[static_cast<size_t>(index * panels_ + panel)]);
  }
  result.log_sum_exp = join.LogSumExp();
  if (result.log_sum_exp == -kInfinity && !row.rules->edits.empty()) {
    return ScanWhole(row, index, scratch);  // which separates barred tokens from tokens far below
  }
  // 3. Candidates, and log-probabilities of watched tokens.
  const float* const scores =
      Adds(row) ? scratch.full.data() + scratch.full_line[at] * vocabulary() : nullptr;
  if (!TakeBest(row, parts[0].best, scores, scratch.largest_added[at], result)) {
    return ScanWhole(row, index, scratch);
  }
  for (size_t i = 0; i < row.rules->watched.size(); ++i) {
    const float value = scratch.watched[scratch.first_watched[at] + i];
    result.watched.push_back(value == -kInfinity ? -kInfinity : value - result.log_sum_exp);
  }
  if (BansBehindSum(*row.rules)) {
    result.log_sum_exp = 0;  // as of values that are normalised already
  }
  return absl::OkStatus();
}

void VocabularyProjection::FindRuns(ConstMatrix<float> hidden, absl::Span<const Row> rows,
                                    Scratch& scratch) const {
  scratch.picks.BeginStep();
  scratch.runs.clear();
  const PackedMatMul* columns = nullptr;  // of the list `last`
  absl::Span<const int32_t> last;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowRules& rules = *rows[i].rules;
    const bool is_picked = IsPicked(rules, vocabulary(), hidden.row_span(static_cast<int64_t>(i)));
    if (is_picked && rules.allowed != last) {
      last = rules.allowed;
      const bool is_distinct =
          std::adjacent_find(last.begin(), last.end(), std::greater_equal<>()) == last.end();
      columns = is_distinct ? scratch.picks.Of(*weight_, last) : nullptr;
    }
    const PackedMatMul* const of_row = is_picked ? columns : nullptr;
    if (scratch.runs.empty() || scratch.runs.back().columns != of_row) {
      scratch.runs.push_back({static_cast<int64_t>(i), 0, of_row});
    }
    ++scratch.runs.back().num_rows;
  }
}

void VocabularyProjection::ScanPicked(const Scratch::Run& run, absl::Span<Row> rows,
                                      const Scratch& scratch) const {
  static thread_local std::vector<float> scores;
  const int64_t columns = run.columns->columns();
  scores.resize(std::max(scores.size(), static_cast<size_t>(run.num_rows * columns)));
  const Matrix<float> out{scores.data(), run.num_rows, columns, columns};
  {
    const PhaseScope phase(scratch.profile, Phase::kProducts);
    run.columns->RunPanel(scratch.activations, run.first_row, 0, {}, out);
  }
  for (int64_t r = 0; r < run.num_rows; ++r) {
    Row& row = rows[static_cast<size_t>(run.first_row + r)];
    const absl::Span<const int32_t> tokens = row.rules->allowed;
    const absl::Span<float> values(out.row(r), tokens.size());
    if (!bias_.empty()) {
      AddPicked(bias_, tokens, values);
    }
    row.status = absl::OkStatus();
    if (!ScanListed(tokens, values, vocabulary(), *row.rules, row.k, *row.result)) {
      ScanSpread(values, vocabulary(), row);
    }
  }
}

void VocabularyProjection::Scan(const ExecutionContext& context, ConstMatrix<float> hidden,
                                absl::Span<Row> rows, Scratch& scratch) const {
  BW_DCHECK(static_cast<int64_t>(rows.size()) == hidden.rows && hidden.columns == depth());
  const int num_threads = context.num_threads;
  scratch.profile = context.profile;
  FindRuns(hidden, rows, scratch);
  weight_->Prepare(num_threads, hidden, scratch.activations);
  int64_t picked_work = 0;
  for (const Scratch::Run& run : scratch.runs) {
    if (run.columns == nullptr) {
      ScanAll(num_threads, run.first_row, run.num_rows, rows, scratch);
    } else {
      picked_work += run.columns->Work(run.num_rows) + run.num_rows * vocabulary();
    }
  }
  ParallelFor(num_threads, static_cast<int64_t>(scratch.runs.size()), picked_work, [&](int64_t at) {
    const Scratch::Run& run = scratch.runs[static_cast<size_t>(at)];
    if (run.columns != nullptr) {
      ScanPicked(run, rows, scratch);
    }
  });
}

void VocabularyProjection::ScanAll(int num_threads, int64_t first, int64_t count,
                                   absl::Span<Row> rows, Scratch& scratch) const {
  const int64_t work = weight_->Work(count) + count * vocabulary() * kWorkToScan;
  const int threads = SharingFor(num_threads, work);
  const int64_t chunks = std::min<int64_t>(
      threads == 1 || work >= kMinLongScan ? threads : threads * kChunksPerThread, panels_);
  const int64_t tile_rows = SharedTile(count, kTileRows, panels_, threads);
  const int64_t tiles = CeilDiv(count, tile_rows);
  // Where there is a chunk for each thread a chunk's panels are taken by all rows, one panel after
  // another: their weights come from memory once. Where there is not, threads share the rows.
  const int64_t bands = chunks < threads ? tiles : 1;
  Plan(rows, first, count, chunks, scratch);
  ParallelFor(threads, chunks * bands, [&](int64_t item) {
    static thread_local std::vector<float> panel_scores;
    panel_scores.resize(static_cast<size_t>(kTileRows * kScanPanel));
    const int64_t chunk = item / bands;
    const int64_t first_tile = item % bands * tiles / bands;
    const int64_t end_tile = (item % bands + 1) * tiles / bands;
    for (int64_t panel = chunk * panels_ / chunks; panel < (chunk + 1) * panels_ / chunks;
         ++panel) {
      for (int64_t tile = first_tile; tile < end_tile; ++tile) {
        const int64_t first_row = first + tile * tile_rows;
        const int64_t width = std::min(kScanPanel, vocabulary() - panel * kScanPanel);
        const Matrix<float> scores{panel_scores.data(),
                                   std::min(tile_rows, first + count - first_row), width, width};
        RunPanel(scratch.profile, scratch.activations, first_row, panel, scores);
        ScanTile(rows, first_row, panel, chunk, chunks, scores, scratch);
      }
    }
  });
  ParallelFor(threads, count, [&](int64_t at) {
    Row& one = rows[static_cast<size_t>(first + at)];
    one.status = Finish(one, first + at, chunks, scratch);
  });
}

}  // namespace beamwright::ops
