// What a Marian model answers, in plain loops and doubles: the formulas once more, apart from
// the graphs.
#ifndef BEAMWRIGHT_TESTS_TOOLS_BUNDLE_MARIAN_REFERENCE_H_
#define BEAMWRIGHT_TESTS_TOOLS_BUNDLE_MARIAN_REFERENCE_H_

#include <string>
#include <vector>

#include "tests/support/marian_model.h"

namespace beamwright::testing_support {

class MarianReference {
 public:
  explicit MarianReference(const MarianModel& model) : model_(model) {}

  struct Answer {
    std::vector<int32_t> tokens;  // the end token included
    double log_prob = 0;
    double least_margin = 1e9;  // between the best and the second token of a step
  };
  // Greedy search for a source that ends with 0, among the tokens `open` (all, if empty) without
  // the unknown token 1, which has a share in log_prob unless there are open ones. limit: most
  // tokens.
  Answer Greedy(const std::vector<int32_t>& source, size_t limit,
                const std::vector<int32_t>& open) const;
  // Log-probability of given tokens.
  double Score(const std::vector<int32_t>& source, const std::vector<int32_t>& target) const;

 private:
  using Vector = std::vector<double>;
  using Rows = std::vector<Vector>;
  struct Search {
    Rows memory;
    Rows cells;
    std::vector<Rows> read;  // of self-attention, by layer: what it read in each step
    int position = 0;
    int32_t token = 0;
  };

  const MarianMatrix& Array(const std::string& name) const { return model_.arrays.at(name); }
  Vector Affine(const Vector& x, const std::string& w, const std::string& b) const;
  Vector AddedNorm(Vector x, const Vector& input, const std::string& name) const;
  Vector FeedForward(const Vector& x, const std::string& layer) const;
  Vector Attention(const Vector& x, const Rows& memory, const std::string& name) const;
  Vector Input(const std::string& table, int32_t token, int position, bool is_empty) const;
  Search Start(const std::vector<int32_t>& source) const;
  // The output of a layer's cell; `cell` becomes the next state.
  Vector Cell(const Vector& x, const std::string& name, Vector& cell) const;
  // The logits of the next token.
  Vector Step(Search& search) const;

  const MarianModel& model_;
};

}  // namespace beamwright::testing_support

#endif  // BEAMWRIGHT_TESTS_TOOLS_BUNDLE_MARIAN_REFERENCE_H_
