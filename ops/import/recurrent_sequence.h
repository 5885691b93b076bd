// LSTM, GRU and RNN over a whole sequence (OpenVINO's LSTMSequence, GRUSequence and RNNSequence,
// ONNX's LSTM, GRU and RNN) become loops around a cell, one for each direction. Both importers use
// this, so that a sequence runs on the same engine as a loop that a file spells out.
#ifndef BEAMWRIGHT_OPS_IMPORT_RECURRENT_SEQUENCE_H_
#define BEAMWRIGHT_OPS_IMPORT_RECURRENT_SEQUENCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"

namespace beamwright::ops {

// T: time, B: batch, I: size of an element, H: hidden size, D: directions (1, bidirectional 2),
// g: gates (LSTM 4, GRU 3, RNN 1).
struct RecurrentSequence {
  enum class Cell { kLstm, kGru, kRnn };
  enum class Direction { kForward, kReverse, kBidirectional };
  // Where the axes stand:          x          states     y
  enum class Layout {
    kOnnx,            //            [T, B, I]  [D, B, H]  [T, D, B, H]
    kOnnxBatchFirst,  // layout 1   [B, T, I]  [B, D, H]  [B, T, D, H]
    kOpenVino,        //            [B, T, I]  [B, D, H]  [B, D, T, H]
  };
  // Order of gates, and what the bias holds.
  enum class Weights {
    kOpenVino,  // LSTM f i c o; b [D, gH], GRU with linear_before_reset [D, 4H]; p: f i o
    kOnnx,      // LSTM i o f c; b [D, 2gH]: input's biases, then the recurrent ones; p: i o f
  };
  // As the cells' attributes of these names: by position, empty: defaults.
  struct Activations {
    std::vector<std::string> names;
    std::vector<double> alpha;
    std::vector<double> beta;
  };

  Cell cell = Cell::kLstm;
  Direction direction = Direction::kForward;
  Layout layout = Layout::kOpenVino;
  Weights weights = Weights::kOpenVino;
  int64_t hidden_size = 0;               // 0: from the extents of `r`, which then must be known
  std::vector<Activations> activations;  // one for each direction; empty: defaults
  double clip = 0;
  bool linear_before_reset = false;  // GRU
  bool input_forget = false;         // LSTM, as ONNX means it: f = 1 - i

  ValueId x;
  ValueId lengths;  // [B], i32 or i64; absent: every item has T elements
  ValueId h0;       // absent: zeros
  ValueId c0;       // LSTM; absent: zeros
  ValueId w;        // [D, gH, I]
  ValueId r;        // [D, gH, H]
  ValueId b;        // absent: zeros
  ValueId p;        // LSTM, [D, 3H]; absent: no peepholes

  // An LSTM in 8 bits, as ONNX Runtime's DynamicQuantizeLSTM means it: w [D, I, gH] and r [D, H,
  // gH] hold integers; X as a whole, and H in each step, are quantised by their own range,
  // multiplied as integers and scaled. Scales f32 and zero points (which may be absent) are [D] or
  // [D, gH].
  struct Quantisation {
    ValueId w_scale;
    ValueId w_zero;
    ValueId r_scale;
    ValueId r_zero;
  };
  std::optional<Quantisation> quantisation;
};

// States in the layout's axes, at each item's last element in the direction of reading.
struct RecurrentOutputs {
  ValueId y;  // zeros behind an item's length
  ValueId h;
  ValueId c;  // LSTM only
};

// Appends the nodes, all of which bear this name. Weights that are constants stay known at load, so
// that cells pack them. InvalidArgument: hidden_size absent or not positive, activations for
// another number of directions. Shapes and names of activations are checked when the graph is.
absl::StatusOr<RecurrentOutputs> AppendRecurrentSequence(const RecurrentSequence& sequence,
                                                         const std::string& name, Graph& graph);

// Activations of one direction of a cell: LSTM 3, GRU 2, RNN 1.
size_t NumActivations(RecurrentSequence::Cell cell);

// Distributes ONNX's lists: `names` for all directions one after another (empty: defaults);
// activations that take an alpha (a beta) consume the next one of the list. Sets
// sequence.activations; direction and cell must be set. InvalidArgument: lists of a wrong length.
absl::Status SetOnnxActivations(const std::vector<std::string>& names,
                                const std::vector<double>& alpha, const std::vector<double>& beta,
                                RecurrentSequence& sequence);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_RECURRENT_SEQUENCE_H_
