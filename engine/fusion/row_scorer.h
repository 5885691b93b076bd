// RowScorer: a scorer of the next token besides the model (an n-gram model,
// CTC prefix scores), at work for one request. It keeps what it must know of each live row's tokens
// and moves it as the search moves rows. docs/decoding.md, 'Fusion'.
#ifndef BEAMWRIGHT_ENGINE_FUSION_ROW_SCORER_H_
#define BEAMWRIGHT_ENGINE_FUSION_ROW_SCORER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::fusion {

// Starts with one row without tokens.
class RowScorer {
 public:
  virtual ~RowScorer() = default;

  // Row i now continues row parents[i] of before with tokens[i]. Allocates only while the number of
  // rows grows.
  virtual void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) = 0;

  // Natural-log probability of each token behind the row's; at most 0, -infinity where it is
  // impossible. Threads may ask for different rows at once.
  virtual void Score(int row, absl::Span<float> log_probs) = 0;
};

// A model whose state behind a row's tokens is one number, at work for one request.
template <typename Model>
class ModelScorer final : public RowScorer {
 public:
  explicit ModelScorer(std::shared_ptr<const Model> model)
      : model_(std::move(model)), states_({model_->Start()}) {}

  void Advance(absl::Span<const int32_t> parents, absl::Span<const int32_t> tokens) override {
    next_states_.clear();
    for (size_t row = 0; row < parents.size(); ++row) {
      next_states_.push_back(model_->Next(states_[static_cast<size_t>(parents[row])], tokens[row]));
    }
    states_.swap(next_states_);
  }
  void Score(int row, absl::Span<float> log_probs) override {
    model_->Score(states_[static_cast<size_t>(row)], log_probs);
  }

 private:
  std::shared_ptr<const Model> model_;
  std::vector<typename Model::State> states_;
  std::vector<typename Model::State> next_states_;
};

}  // namespace beamwright::fusion

#endif  // BEAMWRIGHT_ENGINE_FUSION_ROW_SCORER_H_
