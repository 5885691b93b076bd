// SteppedDecoder: a graph compiled for a search. The body of its loop over the target (or the step
// graph) is the step: its sliced input takes the tokens, its carried states move with the rows, its
// invariant inputs are a request's own. What the graph computes before the loop is the prologue,
// run once per request. CompileDecoder is the only way from a graph to a step: a file that it takes
// is served, and `beamwright-graph check` says what it says.
#ifndef BEAMWRIGHT_OPS_DECODER_STEPPED_DECODER_H_
#define BEAMWRIGHT_OPS_DECODER_STEPPED_DECODER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/base/precision.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/decoder/token_tables.h"
#include "ops/kernels/topk.h"
#include "ops/kernels/vocabulary_projection.h"
#include "ops/loop/loop_body.h"

namespace beamwright::ops {

// How a tensor of attention weights is laid out; what its other axes count are heads.
struct AttentionLayout {
  int position_axis = -1;    // source positions
  int row_axis = 0;          // rows, each of
  int64_t heads_in_row = 1;  // heads in a row; 0: all of a part, which is one row
};

struct DecoderOptions {
  Precision steps = Precision::kF32;       // of constant weights, but for those of
  Precision projection = Precision::kF32;  // the product with the vocabulary, where it is split off
  ScoreKind score_kind = ScoreKind::kLogits;
  // Tokens of the target vocabulary, which the scores must be as many as. 0: as many as the graph
  // says.
  int num_tokens = 0;
  int begin_token = 0;
  // See TokenTableOptions::max_share.
  double token_table_share = 1;
  ExecutionContext context;  // of what is computed to compile it
  // For looking at a graph: the number of scores may stay open, and the step computes them itself.
  bool for_inspection = false;
};

// Const after CompileDecoder and the self-check, and then thread-safe.
struct SteppedDecoder {
  // What is computed before the loop, once per request: `prologue` runs on slots in which the
  // inputs were set; states and invariants are then read from these values.
  Graph decoder;
  Program prologue;
  int token_node = -1;                    // Parameter node that takes the tokens
  bool prologue_measures_tokens = false;  // it reads their shape, never their values
  std::vector<int> input_nodes;           // Parameter nodes but the tokens', as requests give them
  std::vector<ValueId> state_values;      // in the order of body->carried()
  std::vector<ValueId> invariant_values;  // of body->invariants(); absent: it reads none
  std::vector<int> count_nodes;           // of body->iterations(): where they begin
  // Inputs that take [rows, layers, ...] where the file has [layers, rows, ...], by name.
  std::vector<std::string> moved_states;

  std::unique_ptr<LoopBody> body;
  std::string step_name;  // for people: "Loop 'decoder'", or of a step graph its tokens and states
  DType token_dtype = DType::kI64;
  Shape token_shape;       // with -1 where the rows go: [-1], [-1, 1] or [1, -1]
  int logits_result = -1;  // index into the body's results
  // What makes scores of that result; null: it is the scores.
  std::unique_ptr<const VocabularyProjection> projection;
  ScoreKind logits_kind = ScoreKind::kLogits;  // of the scores
  int vocabulary_size = 0;                     // 0: open, for inspection
  int attention_result = -1;                   // index into the body's results; -1: none, because
  std::string no_attention = "attention_output is not set in its model.textproto";
  AttentionLayout attention_layout;  // of a step's attention
  TokenTables token_tables;          // those of `body`

  // The token(s) that the rows read, in the form that the body takes.
  Tensor TokenTensor(absl::Span<const int32_t> tokens) const;
  // The same, into a tensor that is kept from step to step.
  void FillTokens(absl::Span<const int32_t> tokens, Tensor& tensor) const;
};

// Fills `decoder`. `graph`: as the importer leaves it. Errors name the field of model.textproto or
// the layer.
absl::Status CompileDecoder(Graph graph, const DecoderPorts& ports, const DecoderOptions& options,
                            SteppedDecoder& decoder);

// Everything a request's steps start from.
struct StartValues {
  LoopBody::RequestValues values;
  std::vector<Tensor> states;  // [1, ...] each, in the order of body->carried()
};

// Runs the prologue and binds the body. `inputs`: one tensor [1, ...] per decoder.input_nodes.
absl::Status Prepare(const SteppedDecoder& decoder, const ExecutionContext& context,
                     absl::Span<const Tensor> inputs, StartValues& start);

// All scores of a step's rows, [rows, vocabulary]: `result`, which the step gave as logits_result,
// or computed from it into `scores` where the projection was split off.
const Tensor& AllScores(const SteppedDecoder& decoder, const ExecutionContext& context,
                        const Tensor& result, Tensor& scores);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_STEPPED_DECODER_H_
