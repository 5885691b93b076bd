// RowGraph: a graph whose inputs and results all count rows on their first axis, compiled so that
// rows of many requests run together and none changes another's bits: a loop body
// (ops/loop/loop_body.h) of which nothing belongs to a single request. States, which a row reads of
// another row before it, are inputs with a result each. A transducer's predictor and the parts of
// its joiner are such graphs.
#ifndef BEAMWRIGHT_OPS_DECODER_ROW_GRAPH_H_
#define BEAMWRIGHT_OPS_DECODER_ROW_GRAPH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/base/precision.h"
#include "ops/decoder/step_form.h"
#include "ops/decoder/token_tables.h"
#include "ops/kernels/topk.h"
#include "ops/kernels/vocabulary_projection.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {

struct RowGraphOptions {
  Precision weights = Precision::kF32;
  // The result whose last product with a constant weight is left to `projection`, if it ends in
  // one.
  int projected_result = -1;
  Precision projection = Precision::kF32;
  ScoreKind score_kind = ScoreKind::kLogits;  // of that result
  // Tables for tokens [0, num_tokens), the only input that is no state; 0: none.
  int64_t num_tokens = 0;
  double token_table_share = 1;
  ExecutionContext context;  // of the tables' computation
};

// Immutable but for SelfCheck, and thread-safe.
class RowGraph {
 public:
  // What runs keep, so that steady ones allocate nothing. One for a thread.
  struct Scratch {
    LoopBody::RequestValues values;
    bool is_bound = false;
    LoopBody::RowScratch rows;
  };

  // `graph`, and `info` of it, as InferGraph leaves them. states: which inputs they are. Errors
  // name the layer that can't be compiled.
  static absl::StatusOr<std::unique_ptr<RowGraph>> Compile(Graph graph, GraphInfo info,
                                                           absl::Span<const StepState> states,
                                                           const RowGraphOptions& options);

  // Runs two steps of random rows together and each alone: whether every bit agrees. If not, rows
  // run one at a time from then on. An error if the graph fails on them.
  absl::Status SelfCheck(const ExecutionContext& context, int64_t num_tokens);

  // inputs: one [rows, ...] for each of inputs(). parents: for each row the row of `states` that it
  // continues; 0, 1, 2 ... without parents. states become [rows, ...].
  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor> inputs,
                   absl::Span<const int32_t> parents, Scratch& scratch, std::vector<Tensor>& states,
                   std::vector<Tensor>& results) const;

  // Declared types and shapes of what Run takes, rows open.
  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& states() const { return states_; }
  // Of results, as far as they are known.
  const ValueInfo& result(int index) const;
  int num_results() const { return static_cast<int>(body_->loop().body.results.size()); }
  // Null: the result is the scores, of kind score_kind().
  const VocabularyProjection* projection() const { return projection_.get(); }
  ScoreKind score_kind() const { return score_kind_; }
  const TokenTables& token_tables() const { return token_tables_; }
  // Why rows run one at a time; empty: they run together.
  std::string apart() const { return body_->plan().separable ? "" : body_->plan().reason; }

 private:
  RowGraph() = default;
  absl::StatusOr<bool> RunsTogetherAsAlone(const ExecutionContext& context,
                                           int64_t num_tokens) const;

  std::unique_ptr<LoopBody> body_;
  std::vector<ValueInfo> inputs_;
  std::vector<ValueInfo> states_;
  std::unique_ptr<const VocabularyProjection> projection_;
  ScoreKind score_kind_ = ScoreKind::kLogits;
  TokenTables token_tables_;
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_ROW_GRAPH_H_
