// StepRunner: one compiled decoder at work for all running requests that use it. It keeps the
// states of their rows and moves them as the searches move rows. The beam driver has one for the
// model's decoder and one for each further decoder that is stepped with it. Private to engine/.
#ifndef BEAMWRIGHT_ENGINE_BEAM_STEP_RUNNER_H_
#define BEAMWRIGHT_ENGINE_BEAM_STEP_RUNNER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "beamwright/v1/decode.pb.h"
#include "engine/model/parts.h"
#include "engine/search/n_best_list.h"
#include "engine/search/row_search.h"
#include "ops/decoder/stepped_decoder.h"

namespace beamwright::engine {

// Attention: what a model's attention output says of rows, step by step, and what an answer shows
// of it.

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

// The states of one request in one decoder.
struct DecoderRows {
  StartValues start;
  // Place of its first row in its group's states after the last step; -1 before its first step.
  // Each row has `positions` entries there, as it read positions, and continues from the last of
  // them.
  int first_row = -1;
  int positions = 1;
  // The last step was interrupted: each row resumes from its own state instead of its parent's.
  bool repeats = false;
  // The same three before the step under way, for Repeat.
  int first_row_before = -1;
  int positions_before = 1;
  bool repeats_before = false;
};

// One thread at a time. A step: Begin, Add for each request that is alive, Run.
//
// Each state of all rows is one tensor, which needs one shape for all of them. A state that is as
// long as the source, such as a coverage, has no such shape: requests come in groups of equal
// shapes, and a step runs group by group.
class StepRunner {
 public:
  // `decoder` must outlive it. is_alone: no other decoder is stepped with it, so that a step that
  // has ended is never repeated, and states may be written in place.
  StepRunner(const ops::SteppedDecoder& decoder, bool is_alone)
      : decoder_(&decoder),
        in_place_(is_alone && decoder.body->writes_in_place() && HasStatesOfOneShape(decoder)),
        most_positions_(MostPositions(decoder, in_place_)) {}

  // Positions that a row may read in a step; 1: a token a step.
  int most_positions() const { return most_positions_; }

  void Begin();
  // Appends the search's rows. `rows` must live until Run returns. `group`: a small number, the
  // same for a request in all its steps; the requests of a group are added one after another.
  // positions: at most most_positions() and the search's known steps, or 1.
  void Add(const search::RowSearch& search, DecoderRows& rows, int group = 0, int positions = 1);
  absl::Status Run(const ops::ExecutionContext& context, bool reads_attention = false);
  // The step must be made again, whether it was interrupted, ended or had not begun: the requests
  // that were added can be added to the next step as if this one had not been.
  void Repeat();

  // Copies of the states of a request's only row, [1, ...] each, after a step that it took part in.
  std::vector<ops::Tensor> StatesOf(const DecoderRows& rows, int group = 0) const;

  int num_rows() const { return num_rows_; }
  // The scores of row `row` of the last step, in the order of Add. A view until the next step.
  // Where the projection was split off, only after ComputeScores.
  absl::Span<const float> Scores(int row) const;
  // Its attention, if Run was to read it; a view as well.
  AttentionRows Attention() const { return {parts_, decoder_->attention_layout}; }
  void ComputeScores(const ops::ExecutionContext& context);
  // Null: the step gives scores. Else they are its product with hidden(), [num_rows(), depth].
  const ops::VocabularyProjection* projection() const { return decoder_->projection.get(); }
  ops::ConstMatrix<float> hidden() const;
  ops::ScoreKind kind() const { return decoder_->logits_kind; }

  // Call when no request is left: drops all states; the buffers of the first group are kept.
  void Clear();

 private:
  // Whether the extents of all states are known, so that all requests are one group.
  static bool HasStatesOfOneShape(const ops::SteppedDecoder& decoder);
  static int MostPositions(const ops::SteppedDecoder& decoder, bool in_place);

  // Requests whose states have the same shapes.
  struct Group {
    // After a step: all rows' states, [rows, ...] each.
    std::vector<ops::Tensor> states;
    ops::LoopBody::RowScratch scratch;
    std::vector<ops::Tensor> results;
    // Of the step under way; members, so that steady steps allocate nothing.
    std::vector<const std::vector<ops::Tensor>*> starts;  // of requests that take their first step
    std::vector<DecoderRows*> added;
    bool has_run = false;
    int64_t num_held = 0;     // rows after the last step
    int64_t num_sources = 0;  // rows to continue: old ones, then starts
    std::vector<int32_t> parents;
    std::vector<int32_t> tokens;
    ops::Tensor token_tensor;
    std::vector<int> rows_per_request;
    std::vector<ops::LoopBody::RequestValues*> values;

    void Forget();
    int num_rows() const { return static_cast<int>(tokens.size()); }
  };

  absl::Status RunGroup(const ops::ExecutionContext& context, bool reads_attention, Group& group);
  const ops::Tensor& ResultOf(const Group& group) const {
    return group.results[static_cast<size_t>(decoder_->logits_result)];
  }
  // Makes result_ and parts_ of those of the groups that ran.
  void CollectGroups();

  const ops::SteppedDecoder* decoder_;
  bool in_place_ = false;
  int most_positions_ = 1;
  std::vector<std::unique_ptr<Group>> groups_;  // by number
  int num_rows_ = 0;                            // of all groups, in the step under way
  ops::Tensor joined_;                          // results of several groups
  const ops::Tensor* result_ = nullptr;         // of all rows of the last step
  std::vector<ops::Tensor> parts_;              // of their attention
  ops::Tensor scores_;                          // that ComputeScores made
};

// Makes a step of one row from `start` and keeps nothing of it: it checks that the model can
// continue from the states that a request brought, before it is stepped together with others.
absl::Status TryStep(const ops::SteppedDecoder& decoder, int32_t begin_token,
                     const ops::ExecutionContext& context, StartValues& start);

}  // namespace beamwright::engine

#endif  // BEAMWRIGHT_ENGINE_BEAM_STEP_RUNNER_H_
