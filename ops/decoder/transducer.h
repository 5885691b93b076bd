// A transducer's graphs, compiled for a search by frames (Graves 2012). A file says
// predictor(tokens, states) and joiner(frame, predictor); what runs is cut by what it depends on,
// and each part runs where it is cheapest:
//
//   frames     what depends on the encoder's frame alone    once a frame, all frames at hand at
//   once predictor  what depends on the tokens alone, the         once an emission, rows of all
//   requests
//              joiner's part of it included
//   joiner     the rest                                      each row, its last product in the scan
//
// An export that holds both in one graph (NeMo's decoder_joint) is cut in the same way.
#ifndef BEAMWRIGHT_OPS_DECODER_TRANSDUCER_H_
#define BEAMWRIGHT_OPS_DECODER_TRANSDUCER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/decoder/row_graph.h"

namespace beamwright::ops {

// As model.textproto names them (docs/bundle.md, 'Transducers'); empty: the only one that it can
// be.
struct TransducerPorts {
  std::string token_input;
  std::string length_input;
  std::vector<StatePorts> states;
  std::string predictor_output;
  std::string encoder_input;
  std::string predictor_input;
  std::string logits_output;
};

struct TransducerOptions {
  Precision steps = Precision::kF32;
  Precision projection = Precision::kF32;
  ScoreKind score_kind = ScoreKind::kLogits;
  int context_size = 0;       // 0: states, and one token at a time
  int num_tokens = 0;         // that the predictor may read
  int64_t frame_width = -1;   // of the encoder; -1: not known
  bool width_first = false;   // frames are [width, frames] in the export, not [frames, width]
  bool keeps_scores = false;  // whole rows of scores are wanted: no projection is split off
  double token_table_share = 1;
  ExecutionContext context;  // of what is computed to compile it
};

// Const after CompileTransducer, and then thread-safe.
struct Transducer {
  std::unique_ptr<RowGraph> frames;  // null: the joiner takes frames as they are
  std::unique_ptr<RowGraph> predictor;
  std::unique_ptr<RowGraph> joiner;
  Shape frame_shape;  // as `frames` or `joiner` take one: -1, then its extents, width and ones
  int64_t frame_width = 0;
  int64_t num_columns = 0;  // of scores
  // The first results of `predictor` are its states'; from here on are what the joiner reads of it.
  int first_output = 0;
  // The joiner's inputs: number of a result of `frames` (of one frame alone: 0), or of `predictor`.
  struct Input {
    bool is_of_frame = false;
    int result = 0;
  };
  std::vector<Input> joiner_inputs;
};

// joiner: none where `predictor` is both. Errors name the field of model.textproto, "joiner.graph",
// or the layer; where predictor and joiner do not fit each other, both shapes.
absl::Status CompileTransducer(Graph predictor, std::optional<Graph> joiner,
                               const TransducerPorts& ports, const TransducerOptions& options,
                               Transducer& transducer);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_DECODER_TRANSDUCER_H_
