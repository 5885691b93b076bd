// A step of one decoder for the rows of all running requests. The searches say for each of their
// rows which row of the step before it continues (parents) and which token it reads; the runner
// arranges these as one batch for ops::LoopBody::StepRows and keeps the states that come out.
//
// 1. Begin forgets the step before; the states of its rows stay.
// 2. Add appends a request's rows. The parents that the search gives count within the request; they
//    become numbers of rows in the group by adding the place of the request's first row. A request
//    in its first step has no rows yet: its start states are a further source, counted after the
//    rows of the step before, and its row continues that.
// 3. Run steps group after group (RunGroup) and joins the results to one matrix in the order of Add
//    (CollectGroups).
// 4. Repeat undoes a step that must be made again, for example because it was interrupted or
//    another decoder of the model failed: the states from before are restored, and each row then
//    continues its own state instead of its parent's (`repeats`).
//
// Example: requests A and B with 2 rows each. A's search keeps its row 1 twice, B's its rows 0 and
// 1: the parents are 1, 1, 2, 3.
//
// Several positions. A row that reads known tokens (a prompt) reads up to MostPositions() of them
// in a step: the positions are further rows of the batch, each marked kRowBefore, which continues
// the row above it. A search's row then has the states of its last position, which is why Add
// counts parents as (parent + 1) * positions - 1.
//
// Before that, the attention of a step: its rows (AttentionRows) and what a request keeps of them
// (AttentionHistory).
//
// Groups. Rows can be in one batch only if their states have equal shapes. Requests whose states
// are as long as their sources (a coverage vector, for example) come in groups of equal shapes.
#include "engine/beam/step_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request/saved_state.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

namespace beamwright::engine {

// Attention of a decoder to source positions, as alignments of answers.
//
// AttentionRows::Read takes the weights of one row of a step from the output of the model, whose
// layout is given: which axis has the rows, with how many heads each, and which has the positions.
// It averages over heads and all other axes. Steps may be computed in parts, so that it also finds
// the part that has the row.
//
// AttentionHistory keeps the weights of all rows of all steps (or of the last step only), and
// Describe writes those on the path of one hypothesis: for each token the position with the largest
// weight, and all weights if the request asks for them.

int64_t AttentionRows::NumRows(const ops::Tensor& part) const {
  if (layout_.heads_in_row == 0) {
    return 1;
  }
  return part.rank() > layout_.row_axis ? part.dim(layout_.row_axis) / layout_.heads_in_row : 0;
}

absl::Status AttentionRows::Read(int64_t row, std::vector<float>& weights) {
  while (part_ < parts_.size() && parts_[part_].has_value() &&
         row >= first_row_ + NumRows(parts_[part_])) {
    first_row_ += NumRows(parts_[part_++]);
  }
  if (part_ >= parts_.size()) {
    return absl::InternalError("the step gave no attention for some of its rows");
  }
  const ops::Tensor& part = parts_[part_];
  if (!part.has_value() || part.dtype() != ops::DType::kF32 ||
      part.rank() <= layout_.position_axis || part.num_elements() == 0) {
    return absl::InternalError(absl::StrCat("the step gave attention ", ops::ToString(part.shape()),
                                            ", which has no source positions"));
  }
  // [before, axis, between, other axis, after]: rows and positions, whichever comes first.
  int64_t before = 1, between = 1, after = 1;
  const int first = std::min(layout_.row_axis, layout_.position_axis);
  const int second = std::max(layout_.row_axis, layout_.position_axis);
  for (int axis = 0; axis < part.rank(); ++axis) {
    (axis < first    ? before
     : axis < second ? between
                     : after) *= axis == first || axis == second ? 1 : part.dim(axis);
  }
  const int64_t positions = part.dim(layout_.position_axis);
  const int64_t second_stride = after;
  const int64_t between_stride = part.dim(second) * after;
  const int64_t first_stride = between * between_stride;
  const bool rows_first = layout_.row_axis < layout_.position_axis;
  const int64_t row_stride = rows_first ? first_stride : second_stride;
  const int64_t position_stride = rows_first ? second_stride : first_stride;
  const int64_t heads_in_row =
      layout_.heads_in_row == 0 ? part.dim(layout_.row_axis) : layout_.heads_in_row;
  const int64_t first_head = (row - first_row_) * heads_in_row;
  const auto heads = static_cast<float>(before * between * after * heads_in_row);
  for (int64_t i = 0; i < positions; ++i) {
    float sum = 0;
    for (int64_t b = 0; b < before; ++b) {
      for (int64_t h = first_head; h < first_head + heads_in_row; ++h) {
        for (int64_t m = 0; m < between; ++m) {
          for (int64_t a = 0; a < after; ++a) {
            sum += part.data<float>()[b * part.dim(first) * first_stride + h * row_stride +
                                      m * between_stride + i * position_stride + a];
          }
        }
      }
    }
    const float weight = sum / heads;
    if (!std::isfinite(weight)) {
      return absl::InternalError(
          absl::StrCat("the model's attention to source position ", i, " is not a finite number"));
    }
    weights.push_back(weight);
  }
  return absl::OkStatus();
}

absl::Status AttentionHistory::AddStep(AttentionRows& rows, int64_t first, int count) {
  if (!keep_all_) {
    weights_.clear();
    starts_.clear();
  }
  starts_.push_back(weights_.size());
  for (int row = 0; row < count; ++row) {
    const size_t before = weights_.size();
    if (absl::Status status = rows.Read(first + row, weights_); !status.ok()) {
      return status;
    }
    const int positions = static_cast<int>(weights_.size() - before);
    if (num_positions_ != 0 && positions != num_positions_) {
      return absl::InternalError(absl::StrCat("the model's attention is over ", positions,
                                              " source positions, before it was over ",
                                              num_positions_));
    }
    num_positions_ = positions;
  }
  return absl::OkStatus();
}

absl::Span<const float> AttentionHistory::row(int step, int row) const {
  const auto width = static_cast<size_t>(num_positions_);
  const size_t begin = starts_[static_cast<size_t>(step)] + static_cast<size_t>(row) * width;
  BW_DCHECK(begin + width <= weights_.size());
  return absl::MakeConstSpan(weights_).subspan(begin, width);
}

void AttentionHistory::Describe(const search::Hypothesis& hypothesis, bool soft,
                                v1::Hypothesis& out) const {
  for (size_t step = 0; step < hypothesis.rows.size(); ++step) {
    const absl::Span<const float> weights = row(static_cast<int>(step), hypothesis.rows[step]);
    out.add_alignment(
        static_cast<int32_t>(std::max_element(weights.begin(), weights.end()) - weights.begin()));
    if (soft) {
      out.mutable_attention()->mutable_values()->Add(weights.begin(), weights.end());
    }
  }
  if (soft) {
    out.mutable_attention()->set_rows(static_cast<int32_t>(hypothesis.rows.size()));
    out.mutable_attention()->set_columns(num_positions_);
  }
}

void StepRunner::Group::Forget() {
  states.clear();
  results.clear();
  added.clear();
  scratch.ForgetRequests();
  scratch.ForgetPages();
  num_held = 0;
}

bool StepRunner::HasStatesOfOneShape(const ops::SteppedDecoder& decoder) {
  const ops::Loop& loop = decoder.body->loop();
  return std::all_of(decoder.body->carried().begin(), decoder.body->carried().end(), [&](int rule) {
    const int parameter = loop.inputs[static_cast<size_t>(rule)].body_parameter;
    const int node = loop.body.parameters[static_cast<size_t>(parameter)];
    const ops::PartialShape& shape = loop.body.node(node).outputs[0].shape;
    return shape.has_rank() && shape.rank() > 0 &&
           std::all_of(shape.dims().begin() + 1, shape.dims().end(),
                       [](int64_t extent) { return extent >= 0; });
  });
}

int StepRunner::MostPositions(const ops::SteppedDecoder& decoder, bool in_place) {
  if (!decoder.body->plan_positions().possible || !HasStatesOfOneShape(decoder)) {
    return 1;
  }
  // States that are not written in place are held for each position until the step ends.
  constexpr int64_t kMostBytes = int64_t{16} << 20;
  const ops::Loop& loop = decoder.body->loop();
  int64_t bytes = 1;
  for (const int rule : decoder.body->carried()) {
    const int parameter = loop.inputs[static_cast<size_t>(rule)].body_parameter;
    const ops::ValueInfo& info =
        loop.body.node(loop.body.parameters[static_cast<size_t>(parameter)]).outputs[0];
    int64_t of_row = ops::SizeOf(info.dtype);
    for (int axis = 1; axis < info.shape.rank(); ++axis) {
      of_row *= info.shape.dim(axis);
    }
    bytes += in_place ? 0 : of_row;
  }
  return static_cast<int>(std::clamp<int64_t>(kMostBytes / bytes, 1, search::kMaxLength));
}

void StepRunner::Clear() {
  groups_.resize(std::min<size_t>(groups_.size(), 1));
  for (const auto& group : groups_) {
    group->Forget();
  }
  parts_.clear();
  result_ = nullptr;
}

void StepRunner::Begin() {
  num_rows_ = 0;
  for (const auto& group : groups_) {
    group->parents.clear();
    group->tokens.clear();
    group->rows_per_request.clear();
    group->values.clear();
    group->starts.clear();
    group->added.clear();
    group->has_run = false;
    group->num_sources = group->num_held;
  }
}

void StepRunner::Add(const search::RowSearch& search, DecoderRows& rows, int group, int positions) {
  while (groups_.size() <= static_cast<size_t>(group)) {
    groups_.push_back(std::make_unique<Group>());
  }
  Group& to = *groups_[static_cast<size_t>(group)];
  to.added.push_back(&rows);
  rows.first_row_before = rows.first_row;
  rows.positions_before = rows.positions;
  rows.repeats_before = std::exchange(rows.repeats, false);
  if (rows.first_row < 0) {
    rows.first_row = static_cast<int>(to.num_sources++);
    to.starts.push_back(&rows.start.states);
  }
  // The row's parent in the group, then for each further position the known token that it reads.
  const int first = rows.first_row;
  rows.first_row = to.num_rows();
  for (int own = 0; own < search.num_rows(); ++own) {
    const auto at = static_cast<size_t>(own);
    // A row that was restored has the states of its first position.
    to.parents.push_back(first + (rows.repeats_before
                                      ? own * rows.positions_before
                                      : (search.parents()[at] + 1) * rows.positions_before - 1));
    to.tokens.push_back(search.tokens()[at]);
    const absl::Span<const int32_t> known =
        positions > 1 ? search.known_tokens(own) : absl::Span<const int32_t>();
    for (int position = 1; position < positions; ++position) {
      to.parents.push_back(ops::LoopBody::kRowBefore);
      to.tokens.push_back(known[static_cast<size_t>(position - 1)]);
    }
  }
  rows.positions = positions;
  to.rows_per_request.push_back(search.num_rows() * positions);
  to.values.push_back(&rows.start.values);
  num_rows_ += search.num_rows() * positions;
}

void StepRunner::Repeat() {
  for (const auto& group : groups_) {
    if (group->has_run) {
      decoder_->body->RestoreStates(group->scratch, group->states);
      for (ops::LoopBody::RequestValues* const values : group->values) {
        values->CountSteps(-1);
      }
      group->num_held = group->num_rows();
    }
    for (DecoderRows* const rows : group->added) {
      rows->repeats = group->has_run || rows->repeats_before;
      if (!group->has_run) {
        rows->first_row = rows->first_row_before;
        rows->positions = rows->positions_before;
      }
    }
    group->has_run = false;
  }
}

absl::Status StepRunner::Run(const ops::ExecutionContext& context, bool reads_attention) {
  for (const auto& group : groups_) {
    if (group->num_rows() > 0) {
      BW_RETURN_IF_ERROR(RunGroup(context, reads_attention, *group));
    } else {
      *group = Group();  // its requests are gone, and perhaps no more come
    }
  }
  CollectGroups();
  return absl::OkStatus();
}

absl::Status StepRunner::RunGroup(const ops::ExecutionContext& context, bool reads_attention,
                                  Group& group) {
  decoder_->FillTokens(group.tokens, group.token_tensor);
  group.states.resize(static_cast<size_t>(decoder_->body->num_states()));
  const ops::LoopBody::RowStep step{group.values,
                                    group.rows_per_request,
                                    group.parents,
                                    {&group.token_tensor, 1},
                                    group.starts,
                                    in_place_,
                                    reads_attention ? decoder_->attention_result : -1};
  group.has_run = true;
  BW_RETURN_IF_ERROR(
      decoder_->body->StepRows(context, step, group.scratch, group.states, group.results));
  group.num_held = group.num_rows();
  if (in_place_) {
    // The step will not be made again: start states are needed no more.
    for (DecoderRows* const rows : group.added) {
      rows->start.states.clear();
    }
  }
  const ops::Tensor& result = ResultOf(group);
  const int64_t width =
      decoder_->projection == nullptr ? decoder_->vocabulary_size : projection()->depth();
  if (!result.has_value() || result.num_elements() != group.num_rows() * width) {
    return absl::InternalError(absl::StrCat("the step gave ", ops::ToString(result.shape()),
                                            " for ", group.num_rows(), " rows of ", width,
                                            projection() == nullptr ? " scores" : " to project"));
  }
  return absl::OkStatus();
}

void StepRunner::CollectGroups() {
  parts_.clear();
  result_ = nullptr;
  bool several = false;
  for (const auto& group : groups_) {
    if (group->num_rows() > 0) {
      const absl::Span<const ops::Tensor> parts = group->scratch.parts();
      parts_.insert(parts_.end(), parts.begin(), parts.end());
      several = result_ != nullptr;
      result_ = &ResultOf(*group);
    }
  }
  if (!several) {
    return;
  }
  ops::Shape shape = result_->shape();
  shape[0] = num_rows_;
  joined_.Resize(result_->dtype(), shape);
  std::byte* to = joined_.mutable_bytes();
  for (const auto& group : groups_) {
    if (group->num_rows() > 0) {
      const ops::Tensor& result = ResultOf(*group);
      std::memcpy(to, result.bytes(), static_cast<size_t>(result.num_bytes()));
      to += result.num_bytes();
    }
  }
  result_ = &joined_;
}

std::vector<ops::Tensor> StepRunner::StatesOf(const DecoderRows& rows, int group) const {
  const Group& own = *groups_[static_cast<size_t>(group)];
  return CopyStates(
      decoder_->body->StatesOfRow(own.scratch, own.states, rows.first_row + rows.positions - 1));
}

void StepRunner::ComputeScores(const ops::ExecutionContext& context) {
  AllScores(*decoder_, context, *result_, scores_);
}

ops::ConstMatrix<float> StepRunner::hidden() const {
  return {result_->data<float>(), num_rows(), projection()->depth(), projection()->depth()};
}

absl::Span<const float> StepRunner::Scores(int row) const {
  const ops::Tensor& scores = projection() == nullptr ? *result_ : scores_;
  return {scores.data<float>() + int64_t{row} * decoder_->vocabulary_size,
          static_cast<size_t>(decoder_->vocabulary_size)};
}

absl::Status TryStep(const ops::SteppedDecoder& decoder, int32_t begin_token,
                     const ops::ExecutionContext& context, StartValues& start) {
  ops::LoopBody::RequestValues* const values = &start.values;
  const int rows = 1;
  const int32_t parent = 0;
  const ops::Tensor token = decoder.TokenTensor({begin_token});
  const ops::LoopBody::RowStep step{{&values, 1}, {&rows, 1}, {&parent, 1}, {&token, 1}};
  ops::LoopBody::RowScratch scratch;
  std::vector<ops::Tensor> states = start.states;
  std::vector<ops::Tensor> results;
  const absl::Status status = decoder.body->StepRows(context, step, scratch, states, results);
  values->CountSteps(-1);
  BW_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < states.size(); ++i) {
    if (decoder.body->growing_axis(i) < 0 && states[i].shape() != start.states[i].shape()) {
      return Invalid("state ", i, " is ", ops::ToString(start.states[i].shape()), " and becomes ",
                     ops::ToString(states[i].shape()));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamwright::engine
