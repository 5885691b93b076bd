// CtcPrefix: what a CTC output of the encoder says of hypotheses. psi(g) is the probability of all
// alignments whose text begins with g (Graves 2012, section 7.3; Watanabe et al. 2017, algorithm
// 2): its logarithms' differences are the conditional log-probabilities
//   log p(c | g) = log psi(g c) - log psi(g),  log p(end | g) = log p(g exactly) - log psi(g)
// whose sum over a finished hypothesis is the CTC log-probability of its text.
//
// With r_n(t), r_b(t) the probability that the frames up to t spell g and end in its last token, or
// in a blank:
//   psi(g c) = sum over t of p_t(c) (r_b(t - 1) + [c is not the last of g] r_n(t - 1))
// Logarithms and sums are double; terms below e^-700 of the largest count as 0.
#ifndef BEAMWRIGHT_ENGINE_FUSION_CTC_PREFIX_H_
#define BEAMWRIGHT_ENGINE_FUSION_CTC_PREFIX_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/fusion/row_scorer.h"

namespace beamwright::fusion {

// A source's frames.
struct CtcFrames {
  std::vector<float> probs;  // [num_frames, num_columns], row-major; a token's column is its id
  int num_columns = 0;
  int blank = 0;  // its column, in [0, num_columns)
  size_t num_frames() const { return probs.size() / static_cast<size_t>(num_columns); }
};

// A token without a column, or whose column is the blank's, is impossible. A step takes frames x
// columns multiplications a row; a row 40 bytes a frame, twice, and 8 a column.
class CtcPrefixScorer final : public RowScorer {
 public:
  // end_tokens: ascending. Their CTC columns are ignored.
  CtcPrefixScorer(CtcFrames frames, std::vector<int32_t> end_tokens);

  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) override;
  void Score(int row, absl::Span<float> log_probs) override;

  static int64_t NumBytes(int64_t num_frames, int64_t num_columns, int64_t num_rows) {
    return num_frames * num_columns * 4 + num_rows * (num_frames * 80 + num_columns * 8);
  }

 private:
  // Logarithms; index t is behind t frames.
  struct Row {
    std::vector<double> ends_in_token;  // [num_frames + 1]
    std::vector<double> ends_in_blank;
    double prefix = 0;  // log psi
    int32_t last = -1;
  };
  // Of Score, one per row.
  struct Scratch {
    std::vector<double> sums;  // [num_columns]
  };

  bool HasColumn(int32_t token) const;
  void Extend(const Row& parent, int32_t token, Row& child) const;
  const float* Frame(size_t frame) const {
    return frames_.probs.data() + frame * static_cast<size_t>(frames_.num_columns);
  }

  CtcFrames frames_;
  std::vector<int32_t> end_tokens_;
  std::vector<Row> rows_;  // the first of them are live; the others keep their memory
  std::vector<Row> next_rows_;
  std::vector<Scratch> scratch_;
};

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_CTC_PREFIX_H_
