// Attention: what a model's attention output says of rows, step by step, and what an answer shows
// of it. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_ATTENTION_H_
#define BEAMWRIGHT_ENGINE_BEAM_ATTENTION_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/search/n_best_list.h"
#include "ops/decoder/stepped_decoder.h"

namespace beamwright::engine {

using ops::AttentionLayout;

// Reads rows of a step's attention, whose parts together are all rows in their order. A view.
class AttentionRows {
 public:
  AttentionRows(absl::Span<const ops::Tensor> parts, const AttentionLayout& layout)
      : parts_(parts), layout_(layout) {}

  // Appends a row's weights, averaged over heads. Internal if they are not f32 numbers over one or
  // more positions. Rows are to be asked for in ascending order.
  absl::Status Read(int64_t row, std::vector<float>& weights);

 private:
  // Rows of a part.
  int64_t NumRows(const ops::Tensor& part) const;

  absl::Span<const ops::Tensor> parts_;
  AttentionLayout layout_;
  size_t part_ = 0;
  int64_t first_row_ = 0;  // of the part
};

// The weights of one request's rows.
class AttentionHistory {
 public:
  // keep_all: of all steps, for the answer; else only of the last.
  explicit AttentionHistory(bool keep_all = false) : keep_all_(keep_all) {}

  // A further step, of the `count` rows from `first` on.
  absl::Status AddStep(AttentionRows& rows, int64_t first, int count);

  int num_positions() const { return num_positions_; }
  // Weights over source positions. Of the last step only, unless all are kept.
  absl::Span<const float> row(int step, int row) const;
  absl::Span<const float> last(int row) const {
    return this->row(static_cast<int>(starts_.size()) - 1, row);
  }

  // Sets alignment, and with `soft` attention, of a hypothesis of this request.
  void Describe(const search::Hypothesis& hypothesis, bool soft, v1::Hypothesis& out) const;

 private:
  bool keep_all_;
  int num_positions_ = 0;
  std::vector<float> weights_;  // [step][row][position]
  std::vector<size_t> starts_;  // of each step in weights_
};

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_ATTENTION_H_
