// A row's scores are scanned panel by panel, whether they stand in memory (ops/kernels/topk.h) or
// are computed on the way (ops/kernels/vocabulary_projection.h): the width of a panel and the order
// in which panels are joined are fixed, so that both give the same bits.
#ifndef BEAMWRIGHT_OPS_KERNELS_PANEL_SCAN_H_
#define BEAMWRIGHT_OPS_KERNELS_PANEL_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/base/row_rules.h"
#include "ops/kernels/topk.h"

namespace beamwright::ops {

inline constexpr int64_t kScanPanel = 512;
// A block whose largest value can't enter a list of candidates is skipped whole.
inline constexpr int64_t kScanBlock = 64;
inline constexpr int64_t kBlocksPerPanel = kScanPanel / kScanBlock;

// What a panel adds to the log-sum-exp of its row: sum of exp(x - largest).
struct PanelSum {
  float largest = 0;  // -infinity: nothing is added
  double sum = 0;
};

// maxima[i] = the largest of block i of `values`; +infinity if the block has NaN or +infinity.
// maxima: one per started block.
void BlockMaxima(absl::Span<const float> values, float* maxima);

// Of up to kScanPanel values, none of them NaN or +infinity, whose largest is `largest`.
PanelSum SumPanel(absl::Span<const float> values, float largest);

// The same of a panel of which all other values are -infinity, with the same bits: `tokens` are
// ascending, those of one panel, and have the `values`.
PanelSum SumPicked(absl::Span<const int32_t> tokens, absl::Span<const float> values, float largest);

// log(sum of exp(x)) of a row, panel by panel: Add each in its order.
class PanelJoin {
 public:
  void Add(const PanelSum& panel);
  // At least the largest value; -infinity if there is no other.
  float LogSumExp() const;

 private:
  double largest_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0;  // of exp(x - largest_)
};

// The same of values that stand in memory, none of them NaN or +infinity. maxima: those of their
// blocks.
float LogSumExp(absl::Span<const float> values, absl::Span<const float> maxima);
float LogSumExp(absl::Span<const float> values);

// Whether the edit leaves its token without probability, which no other edit of the token lifts.
inline bool Bars(const LogitEdit& edit) {
  return edit.kind == EditKind::kBan || edit.kind == EditKind::kExclude;
}

// x, f32 or f64, as `edit` changes it; what is barred is -infinity.
template <typename T>
T ApplyEdit(const LogitEdit& edit, T x) {
  const T value = edit.value;
  switch (edit.kind) {
    case EditKind::kAdd:
      return x + value;
    case EditKind::kScaleBySign:
      return x < 0 ? x * value : x / value;
    case EditKind::kBan:
    case EditKind::kExclude:
      break;
  }
  return -std::numeric_limits<T>::infinity();
}

// The best of a row's scores, while they pass block by block. Nearly all scores of a block are out
// of the question; which ones are is found without branches, since no branch could be predicted.

struct TokenScore {
  float value;
  int32_t token;
  friend bool operator==(const TokenScore&, const TokenScore&) = default;
};

// Brings `best` up to date: the `most` best so far, by value descending (-0 below 0), then token
// ascending.
// values: of tokens `first` and on, no more than kScanBlock and none of
// them NaN; -infinity is not a score. All tokens of `best` must be lower.
void KeepBest(absl::Span<const float> values, int32_t first, size_t most,
              std::vector<TokenScore>& best);

// Rows of scores as log-probabilities, and several such rows as one: what a search needs of
// ensembles and language models before it scans a row (ops/kernels/topk.h).

// log_probs = the natural-log probabilities that `scores` are, in f32: logits less their
// log-sum-exp, log-probabilities as they are, logarithms of probabilities. InvalidArgument naming
// the token: a score is NaN, +infinity, or none of its kind. `log_probs` is as long as `scores`.
// shift, if not null: what was taken off each; 0 unless they are logits.
absl::Status ToLogProbs(absl::Span<const float> scores, ScoreKind kind, absl::Span<float> log_probs,
                        float* shift = nullptr);

enum class MixKind {
  kLogProbs,  // sum of weight * log-probability
  kProbs,     // log(sum of weight * probability)
};

struct MixPart {
  absl::Span<const float> scores;
  ScoreKind kind = ScoreKind::kLogits;
  float weight = 1;  // > 0
  float shift = 0;   // set by MixScores: as of ToLogProbs
};

// One row of logits out of several rows of equal length; in f32, in the order of `parts`. scratch
// is kept by the caller, so that steady steps allocate nothing. Errors as ToLogProbs, naming the
// part.
absl::Status MixScores(absl::Span<MixPart> parts, MixKind kind, std::vector<float>& scratch,
                       std::vector<float>& logits);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_PANEL_SCAN_H_
