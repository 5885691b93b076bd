// Promise 1 of the README, checked on the very graph, kernels and machine that will serve. That
// rows may run together is proven on the graph (ops/compile/row_plan.h); this is the second line of
// defence, against a rule or a kernel that is wrong.
#include "ops/decoder/self_check.h"

#include <cstring>

#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

// Two requests with sources of different lengths take two steps together, the second with rows
// repeated, and the same steps row by row.
class StepCheck {
 public:
  StepCheck(const SteppedDecoder& decoder, StartValues& first, StartValues& second)
      : decoder_(decoder), starts_{&first, &second} {}

  absl::StatusOr<bool> Run() {
    std::vector<Tensor> states;
    for (size_t i = 0; i < starts_[0]->states.size(); ++i) {
      Tensor both = RepeatRow(starts_[0]->states[i], 2);
      const Tensor& second = starts_[1]->states[i];
      if (second.shape() != starts_[0]->states[i].shape()) {
        return Invalid("state ", i, " depends on the length of the source");
      }
      std::memcpy(both.mutable_bytes() + second.num_bytes(), second.bytes(),
                  static_cast<size_t>(second.num_bytes()));
      states.push_back(both);
    }
    BW_ASSIGN_OR_RETURN(const bool first, Step({0, 1}, {1, 1}, states));
    if (!first) {
      return false;
    }
    return Step({0, 0, 1}, {2, 1}, states);
  }

 private:
  // One step of rows that continue `parents`, counts[i] of request i; false if bits differ.
  absl::StatusOr<bool> Step(const std::vector<int32_t>& parents, const std::vector<int>& counts,
                            std::vector<Tensor>& states) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < parents.size(); ++i) {
      tokens.push_back(static_cast<int32_t>(i) % decoder_.vocabulary_size);
    }
    std::vector<Tensor> old = states;
    std::vector<Tensor> results;
    LoopBody::RowScratch rows;
    BW_RETURN_IF_ERROR(
        RunStep({starts_[0], starts_[1]}, counts, parents, tokens, rows, states, results));
    bool same = true;
    for (size_t row = 0; row < parents.size(); ++row) {
      StartValues* request = static_cast<int>(row) < counts[0] ? starts_[0] : starts_[1];
      std::vector<Tensor> alone = old;
      std::vector<Tensor> alone_results;
      LoopBody::RowScratch alone_rows;
      BW_RETURN_IF_ERROR(
          RunStep({request}, {1}, {parents[row]}, {tokens[row]}, alone_rows, alone, alone_results));
      const auto at = static_cast<int64_t>(row);
      for (size_t i = 0; i < alone.size(); ++i) {
        same = same && SameBits(alone[i], states[i].Rows(at, at + 1));
      }
      const auto logits = static_cast<size_t>(decoder_.logits_result);
      same = same && results[logits].has_value() && results[logits].rank() > 0 &&
             results[logits].dim(0) == static_cast<int64_t>(parents.size()) &&
             SameBits(alone_results[logits], results[logits].Rows(at, at + 1));
      if (same && decoder_.projection != nullptr) {
        Tensor alone_scores;
        Tensor scores;
        const Tensor& one = AllScores(decoder_, {}, alone_results[logits], alone_scores);
        same = SameBits(one, AllScores(decoder_, {}, results[logits], scores).Rows(at, at + 1));
      }
    }
    return same;
  }

  absl::Status RunStep(const std::vector<StartValues*>& requests, const std::vector<int>& counts,
                       const std::vector<int32_t>& parents, const std::vector<int32_t>& tokens,
                       LoopBody::RowScratch& rows, std::vector<Tensor>& states,
                       std::vector<Tensor>& results) const {
    std::vector<LoopBody::RequestValues*> values;
    for (StartValues* request : requests) {
      values.push_back(&request->values);
    }
    const Tensor slice = decoder_.TokenTensor(tokens);
    const LoopBody::RowStep step{values, counts, parents, {&slice, 1}};
    return decoder_.body->StepRows(ExecutionContext(), step, rows, states, results);
  }

  const SteppedDecoder& decoder_;
  StartValues* starts_[2];
};

}  // namespace

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

absl::StatusOr<bool> StepsTogetherAsAlone(const SteppedDecoder& decoder, StartValues& first,
                                          StartValues& second) {
  return StepCheck(decoder, first, second).Run();
}

}  // namespace beamwright::ops
