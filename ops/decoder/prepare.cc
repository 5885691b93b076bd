// What a request's steps start from, and what they read. Prepare runs the prologue, the part of the
// decoder that does not depend on tokens, over the request's inputs, and takes first states and
// invariants out of its results. FillTokens makes the step's token input; AllScores multiplies with
// the vocabulary's matrix where the step leaves that out.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/base/status.h"
#include "ops/decoder/self_check.h"
#include "ops/decoder/stepped_decoder.h"
#include "ops/loop/model.h"

namespace beamwright::ops {

Tensor SteppedDecoder::TokenTensor(absl::Span<const int32_t> tokens) const {
  Tensor tensor;
  FillTokens(tokens, tensor);
  return tensor;
}

void SteppedDecoder::FillTokens(absl::Span<const int32_t> tokens, Tensor& tensor) const {
  Shape shape = token_shape;
  std::replace(shape.begin(), shape.end(), int64_t{-1}, static_cast<int64_t>(tokens.size()));
  tensor.Resize(token_dtype, shape);
  if (token_dtype == DType::kI32) {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int32_t>());
  } else {
    std::copy(tokens.begin(), tokens.end(), tensor.mutable_data<int64_t>());
  }
}

absl::Status Prepare(const SteppedDecoder& decoder, const ExecutionContext& context,
                     absl::Span<const Tensor> inputs, StartValues& start) {
  Slots slots = decoder.prologue.MakeSlots();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int node = decoder.input_nodes[i];
    BW_RETURN_IF_ERROR(CheckParameter(decoder.decoder, node, inputs[i]));
    slots[static_cast<size_t>(decoder.prologue.slot({node, 0}))] = inputs[i];
  }
  if (decoder.prologue_measures_tokens) {
    // Initial states may be made to the target's measures: one row.
    slots[static_cast<size_t>(decoder.prologue.slot({decoder.token_node, 0}))] =
        decoder.TokenTensor({0});
  }
  BW_RETURN_IF_ERROR(decoder.prologue.Run(context, slots));
  const auto read = [&](const std::vector<ValueId>& values) {
    std::vector<Tensor> tensors;
    for (const ValueId value : values) {
      tensors.push_back(value.present() ? slots[static_cast<size_t>(decoder.prologue.slot(value))]
                                        : Tensor());
    }
    return tensors;
  };
  start.states = read(decoder.state_values);
  for (size_t i = 0; i < start.states.size(); ++i) {
    if (start.states[i].rank() < 1 || start.states[i].dim(0) != 1) {
      return Invalid("initial state ", i, " is ", ToString(start.states[i].shape()),
                     "; its first axis must count rows");
    }
  }
  BW_RETURN_IF_ERROR(decoder.body->Bind(context, read(decoder.invariant_values), start.values));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto count =
        std::find(decoder.count_nodes.begin(), decoder.count_nodes.end(), decoder.input_nodes[i]);
    if (count != decoder.count_nodes.end()) {
      BW_ASSIGN_OR_RETURN(const std::vector<int64_t> first, ToInt64(inputs[i]));
      start.values.counts[static_cast<size_t>(count - decoder.count_nodes.begin())] = first.at(0);
    }
  }
  return absl::OkStatus();
}

const Tensor& AllScores(const SteppedDecoder& decoder, const ExecutionContext& context,
                        const Tensor& result, Tensor& scores) {
  if (decoder.projection == nullptr) {
    return result;
  }
  const int64_t depth = decoder.projection->depth();
  const int64_t vocabulary = decoder.projection->vocabulary();
  const int64_t rows = result.num_elements() / depth;
  scores.Resize(DType::kF32, {rows, vocabulary});
  decoder.projection->Scores(context, {result.data<float>(), rows, depth, depth},
                             {scores.mutable_data<float>(), rows, vocabulary, vocabulary});
  return scores;
}

// Promise 1 of the README, checked on the very graph, kernels and machine that will serve. That
// rows may run together is proven on the graph (ops/compile/row_plan.h); this is the second line of
// defence, against a rule or a kernel that is wrong.
namespace {

// Two requests with sources of different lengths take two steps together, the second with rows
// repeated, and the same steps row by row; then one in which a row reads several positions.
class StepCheck {
 public:
  StepCheck(const ExecutionContext& context, const SteppedDecoder& decoder, StartValues& first,
            StartValues& second)
      : context_(context), decoder_(decoder), starts_{&first, &second} {}

  absl::StatusOr<bool> Run() {
    std::vector<Row> rows = {starts_[0]->states, starts_[1]->states};
    for (size_t i = 0; i < rows[0].size(); ++i) {
      if (rows[0][i].shape() != rows[1][i].shape()) {
        return Invalid("state ", i, " depends on the length of the source");
      }
    }
    if (decoder_.body->counts_steps()) {
      // One request is a step ahead.
      BW_ASSIGN_OR_RETURN(Stepped ahead, RunStep({starts_[0]}, {1}, {0}, {0}, {rows[0]}));
      rows[0] = std::move(ahead.rows[0]);
    }
    BW_ASSIGN_OR_RETURN(const bool first, Step({0, 1}, {1, 1}, rows));
    if (!first) {
      return false;
    }
    BW_ASSIGN_OR_RETURN(const bool second, Step({0, 0, 1}, {2, 1}, rows));
    return second && decoder_.body->plan_positions().possible ? StepPositions(rows) : second;
  }

 private:
  using Row = std::vector<Tensor>;  // its states
  struct Stepped {
    std::vector<Row> rows;
    Tensor result;  // the one of the logits
  };

  // One step of rows that continue `parents` of `rows`, counts[i] of request i; false if bits
  // differ.
  absl::StatusOr<bool> Step(const std::vector<int32_t>& parents, const std::vector<int>& counts,
                            std::vector<Row>& rows) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < parents.size(); ++i) {
      tokens.push_back(static_cast<int32_t>(i) % decoder_.vocabulary_size);
    }
    BW_ASSIGN_OR_RETURN(Stepped together,
                        RunStep({starts_[0], starts_[1]}, counts, parents, tokens, rows));
    bool same = true;
    for (size_t row = 0; row < parents.size(); ++row) {
      StartValues* request = static_cast<int>(row) < counts[0] ? starts_[0] : starts_[1];
      request->values.CountSteps(-1);
      BW_ASSIGN_OR_RETURN(const Stepped alone, RunStep({request}, {1}, {0}, {tokens[row]},
                                                       {rows[static_cast<size_t>(parents[row])]}));
      const auto at = static_cast<int64_t>(row);
      for (size_t i = 0; i < alone.rows[0].size(); ++i) {
        same = same && SameBits(alone.rows[0][i], together.rows[row][i]);
      }
      same = same && together.result.has_value() && together.result.rank() > 0 &&
             together.result.dim(0) == static_cast<int64_t>(parents.size()) &&
             SameBits(alone.result, together.result.Rows(at, at + 1));
      if (same && decoder_.projection != nullptr) {
        Tensor alone_scores;
        Tensor scores;
        const Tensor& one = AllScores(decoder_, context_, alone.result, alone_scores);
        same =
            SameBits(one, AllScores(decoder_, context_, together.result, scores).Rows(at, at + 1));
      }
    }
    rows = std::move(together.rows);
    return same;
  }

  // rows: two of the first request, one of the second.
  absl::StatusOr<bool> StepPositions(const std::vector<Row>& rows) {
    constexpr int32_t kBefore = LoopBody::kRowBefore;
    constexpr int64_t kPositions = 3;
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i <= kPositions; ++i) {
      tokens.push_back((i + 1) % decoder_.vocabulary_size);
    }
    BW_ASSIGN_OR_RETURN(const Stepped together, RunStep({starts_[0], starts_[1]}, {kPositions, 1},
                                                        {0, kBefore, kBefore, 2}, tokens, rows));
    bool same = together.result.has_value() && together.result.rank() > 0 &&
                together.result.dim(0) == kPositions + 1;
    Row now = rows[0];
    for (int64_t position = 0; same && position < kPositions; ++position) {
      BW_ASSIGN_OR_RETURN(Stepped alone, RunStep({starts_[0]}, {1}, {0},
                                                 {tokens[static_cast<size_t>(position)]}, {now}));
      same = SameBits(alone.result, together.result.Rows(position, position + 1));
      now = std::move(alone.rows[0]);
    }
    for (size_t i = 0; same && i < now.size(); ++i) {
      same = SameBits(now[i], together.rows[kPositions - 1][i]);
    }
    return same;
  }

  absl::StatusOr<Stepped> RunStep(const std::vector<StartValues*>& requests,
                                  const std::vector<int>& counts,
                                  const std::vector<int32_t>& parents,
                                  const std::vector<int32_t>& tokens,
                                  const std::vector<Row>& from) const {
    std::vector<LoopBody::RequestValues*> values;
    for (StartValues* request : requests) {
      values.push_back(&request->values);
    }
    std::vector<const Row*> starts;
    for (const Row& row : from) {
      starts.push_back(&row);
    }
    const Tensor slice = decoder_.TokenTensor(tokens);
    const LoopBody::RowStep step{values, counts, parents, {&slice, 1}, starts};
    LoopBody::RowScratch scratch;
    Row states(static_cast<size_t>(decoder_.body->num_states()));
    std::vector<Tensor> results;
    BW_RETURN_IF_ERROR(decoder_.body->StepRows(context_, step, scratch, states, results));
    Stepped stepped;
    for (size_t row = 0; row < parents.size(); ++row) {
      stepped.rows.push_back(
          decoder_.body->StatesOfRow(scratch, states, static_cast<int64_t>(row)));
    }
    stepped.result = results[static_cast<size_t>(decoder_.logits_result)];
    return stepped;
  }

  const ExecutionContext& context_;
  const SteppedDecoder& decoder_;
  StartValues* starts_[2];
};

}  // namespace

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.num_bytes())) == 0;
}

absl::StatusOr<bool> StepsTogetherAsAlone(const ExecutionContext& context,
                                          const SteppedDecoder& decoder, StartValues& first,
                                          StartValues& second) {
  return StepCheck(context, decoder, first, second).Run();
}

}  // namespace beamwright::ops
