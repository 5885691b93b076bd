// LSTM, GRU and RNN become loops around cells (ops/import/recurrent_sequence.h).
#include "absl/strings/str_join.h"
#include "ops/import/onnx_operators.h"
#include "ops/import/onnx_pieces.h"
#include "ops/import/onnx_text.h"
#include "ops/import/recurrent_sequence.h"

namespace beamwright::ops {
namespace {

using Cell = RecurrentSequence::Cell;
using Direction = RecurrentSequence::Direction;

void ReadAttributes(OnnxNode& n, RecurrentSequence& sequence) {
  const std::string direction = n.String("direction", "forward");
  if (direction == "reverse") {
    sequence.direction = Direction::kReverse;
  } else if (direction == "bidirectional") {
    sequence.direction = Direction::kBidirectional;
  } else if (direction != "forward") {
    n.Fail("attribute 'direction' is ", Quote(direction),
           "; it must be forward, reverse or bidirectional");
  }
  const bool batch_first = n.version() >= 14 && n.Flag("layout", false);
  sequence.layout =
      batch_first ? RecurrentSequence::Layout::kOnnxBatchFirst : RecurrentSequence::Layout::kOnnx;
  sequence.weights = RecurrentSequence::Weights::kOnnx;
  sequence.hidden_size = n.Int("hidden_size", 0);
  sequence.clip = n.Float("clip", 0);
  n.builder().Fail(SetOnnxActivations(n.Strings("activations"), n.Floats("activation_alpha"),
                                      n.Floats("activation_beta"), sequence));
}

void Append(OnnxNode& n, RecurrentSequence& sequence) {
  sequence.x = n.In(0);
  sequence.w = n.In(1);
  sequence.r = n.In(2);
  sequence.b = n.In(3);
  sequence.lengths = n.In(4);
  sequence.h0 = n.In(5);
  sequence.c0 = n.In(6);
  sequence.p = n.In(7);
  ReadAttributes(n, sequence);
  if (!n.ok()) {
    return;
  }
  const absl::StatusOr<RecurrentOutputs> outputs =
      AppendRecurrentSequence(sequence, n.builder().name(), n.builder().graph());
  if (!outputs.ok()) {
    n.builder().Fail(outputs.status());
    return;
  }
  n.builder().InferAppended();
  n.Out(0, outputs->y);
  n.Out(1, outputs->h);
  n.Out(2, outputs->c);
}

void Lstm(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kLstm;
  sequence.input_forget = n.Flag("input_forget", false);
  Append(n, sequence);
}

// Its weights stand transposed, and every scale and zero point is one for each direction, or one
// for each of its columns.
void DynamicQuantizeLstm(OnnxNode& n) {
  constexpr struct {
    int input;
    const char* name;
    int values;  // the input that a zero point belongs to; 0: it is a scale
  } kPlaces[] = {
      {8, "W_scale", 0}, {9, "W_zero_point", 1}, {10, "R_scale", 0}, {11, "R_zero_point", 2}};
  // W is [directions, inputs, 4 * hidden_size].
  const PartialShape& weights = n.info(n.In(1)).shape;
  const bool known = weights.has_rank() && weights.rank() == 3;
  int rank = -1;
  std::vector<std::string> faults;
  for (const auto& [input, name, values] : kPlaces) {
    if (!n.Has(input)) {
      if (values == 0) {
        faults.push_back(absl::StrCat("input '", name, "' is missing"));
      }
      continue;
    }
    const ValueInfo& info = n.info(n.In(input));
    const int own = info.shape.has_rank() ? info.shape.rank() : 0;
    rank = rank < 0 ? own : rank;
    const auto differs = [&](int axis, int of_weights) {
      return known && info.shape.dim(axis) >= 0 && weights.dim(of_weights) >= 0 &&
             info.shape.dim(axis) != weights.dim(of_weights);
    };
    if (own < 1 || own > 2 || own != rank || differs(0, 0) || (own == 2 && differs(1, 2))) {
      faults.push_back(absl::StrCat(
          "input '", name, "' is ", info.shape.ToString(),
          "; scales and zero points must all be [directions] or all [directions, 4 * hidden_size]",
          known ? absl::StrCat(", here [", weights.dim(0), "] or [", weights.dim(0), ", ",
                               weights.dim(2), "]")
                : ""));
      continue;
    }
    if (values == 0) {
      if (std::string fault = FaultOfScale(n, input, name); !fault.empty()) {
        faults.push_back(std::move(fault));
      }
    } else if (info.dtype != n.info(n.In(values)).dtype) {
      faults.push_back(absl::StrCat("input '", name, "' is ", Name(info.dtype),
                                    "; its weights are ", Name(n.info(n.In(values)).dtype)));
    }
  }
  if (!faults.empty()) {
    n.Fail(absl::StrJoin(faults, "; "));
    return;
  }
  RecurrentSequence sequence;
  sequence.cell = Cell::kLstm;
  sequence.input_forget = n.Flag("input_forget", false);
  sequence.quantisation = {n.In(8), n.In(9), n.In(10), n.In(11)};
  Append(n, sequence);
}

void Gru(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kGru;
  sequence.linear_before_reset = n.Flag("linear_before_reset", false);
  Append(n, sequence);
}

void Rnn(OnnxNode& n) {
  RecurrentSequence sequence;
  sequence.cell = Cell::kRnn;
  Append(n, sequence);
}

}  // namespace

std::vector<OnnxOperator> OnnxMicrosoftRecurrent() {
  return {
      {"DynamicQuantizeLSTM",
       {1},
       3,
       12,
       3,
       "DynamicQuantizeLinear, MatMulInteger, Loop, LSTMCell",
       DynamicQuantizeLstm},
  };
}

std::vector<OnnxOperator> OnnxRecurrent() {
  return {
      {"GRU", {7, 14, 22}, 3, 6, 2, "Loop, GRUCell", Gru},
      {"LSTM", {7, 14, 22}, 3, 8, 3, "Loop, LSTMCell", Lstm},
      {"RNN", {7, 14, 22}, 3, 6, 2, "Loop, RNNCell", Rnn},
  };
}

}  // namespace beamwright::ops
