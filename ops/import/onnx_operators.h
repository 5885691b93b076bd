// The vocabulary: which operators of ONNX's default domain are known, in which versions, and what
// each becomes. Operators stand in the files of their families (onnx_elementwise.cc and so on); a
// new one adds a line to its family's table. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"
#include "ops/import/onnx_node.h"

namespace beamwright::ops {

inline constexpr int kOldestOpset = 8;
inline constexpr int kNewestOpset = 28;
inline constexpr int kAnyNumber = -1;

struct OnnxOperator {
  const char* name;
  // The opsets that changed it, ascending: from the one in force at opset 8 up to the last one
  // that is understood. What is not a change of types alone is handled by the translation.
  std::vector<int> versions;
  int least_inputs = 0;  // the first of them must be there
  int most_inputs = 0;   // kAnyNumber: as many as there are
  int most_outputs = 1;
  // What it becomes: internal operators, for the documentation; where `translate` is null, the one
  // that has the same inputs and the same meaning, and no attributes.
  const char* becomes = nullptr;
  void (*translate)(OnnxNode& node) = nullptr;

  // The version in force at `opset`, 0 if missing.
  int VersionAt(int64_t opset) const;
};

// nullptr if it is unknown. `domain` is "" for the default one, com.microsoft for what ONNX
// Runtime's optimiser and quantiser write, and of kOnnxSequenceDomain those that LowerOnnxSequences
// writes.
const OnnxOperator* FindOnnxOperator(absl::string_view domain, absl::string_view name);
// Those of a domain by name, for tests and the documentation.
std::vector<const OnnxOperator*> AllOnnxOperators(absl::string_view domain = "");

// The families.
std::vector<OnnxOperator> OnnxActivations();    // onnx_elementwise.cc
std::vector<OnnxOperator> OnnxAttention();      // onnx_attention.cc
std::vector<OnnxOperator> OnnxControlFlow();    // onnx_control_flow.cc
std::vector<OnnxOperator> OnnxConvolutions();   // onnx_products.cc
std::vector<OnnxOperator> OnnxCreation();       // onnx_shape.cc
std::vector<OnnxOperator> OnnxElementwise();    // onnx_elementwise.cc
std::vector<OnnxOperator> OnnxGather();         // onnx_movement.cc
std::vector<OnnxOperator> OnnxLinearStates();   // onnx_recurrent.cc
std::vector<OnnxOperator> OnnxMatMul();         // onnx_products.cc
std::vector<OnnxOperator> OnnxMovement();       // onnx_movement.cc
std::vector<OnnxOperator> OnnxNormalization();  // onnx_reduce.cc
std::vector<OnnxOperator> OnnxQuantized();      // onnx_quantized.cc
std::vector<OnnxOperator> OnnxRecurrent();      // onnx_recurrent.cc
std::vector<OnnxOperator> OnnxReductions();     // onnx_reduce.cc
std::vector<OnnxOperator> OnnxShapes();         // onnx_shape.cc
std::vector<OnnxOperator> OnnxSignal();         // onnx_products.cc
// Of com.microsoft, ONNX Runtime's own.
std::vector<OnnxOperator> OnnxMicrosoftAttention();     // onnx_attention.cc
std::vector<OnnxOperator> OnnxMicrosoftFused();         // onnx_attention.cc
std::vector<OnnxOperator> OnnxMicrosoftLinearStates();  // onnx_recurrent.cc
std::vector<OnnxOperator> OnnxMicrosoftQuantized();     // onnx_quantized.cc
std::vector<OnnxOperator> OnnxMicrosoftRecurrent();     // onnx_recurrent.cc
// Of kOnnxSequenceDomain: onnx_control_flow.cc.
std::vector<OnnxOperator> OnnxSequenceOperators();

// Small graphs that several operators of ONNX are translated with.

// The shape as an i64 list: a constant where all extents are known.
ValueId ShapeList(OnnxNode& n, ValueId x);
// The extent of one axis as an i64 scalar; axis may count from the end.
ValueId ExtentOf(OnnxNode& n, ValueId x, int64_t axis);
// x under another shape. pattern: as Reshape takes it; 0 copies the input's extent.
ValueId Reshaped(OnnxNode& n, ValueId x, std::vector<int64_t> pattern);
// A list of one element as a scalar; scalars stay.
ValueId AsScalar(OnnxNode& n, ValueId x);
// [product of the extents before axis, product of the others]. axis in [-rank, rank].
ValueId Flattened(OnnxNode& n, ValueId x, int64_t axis);
// The axes 0 .. rank - 1 as an i64 list.
ValueId AllAxes(OnnxNode& n, ValueId x);
// i64 numbers 0 .. count - 1; count: i64 scalar.
ValueId Counting(OnnxNode& n, ValueId count);
// column - row for every element of the last two axes of x: i64 [rows, columns].
ValueId DiagonalNumbers(OnnxNode& n, ValueId x);
ValueId ConvertTo(OnnxNode& n, ValueId x, DType dtype);
// What is wrong with an input that is known at load and holds what is not a scale of quantised
// numbers, naming it; empty: nothing. CheckScale fails by it.
std::string FaultOfScale(OnnxNode& n, int input, const char* name);
void CheckScale(OnnxNode& n, int input, const char* name);

// Activations as attributes of other operators name them.

// The numbers of an activation; unset: the operator's own defaults.
struct ActivationNumbers {
  std::optional<double> alpha;
  std::optional<double> beta;
  std::optional<double> gamma;
};

// x under the operator of ONNX that `name` names: Relu, Tanh, LeakyRelu and others, and Clip, whose
// bounds are alpha and beta. An error for another name.
ValueId Activated(OnnxNode& n, ValueId x, const std::string& name,
                  const ActivationNumbers& numbers);

// Convolution and pooling as several operators of ONNX ask for them: with the node's attributes, on
// inputs that its translation has prepared.

// x [N, C, ...] by weights [M, C / group, ...], and bias [M] unless that is absent, under the
// attributes of Conv.
ValueId Convolved(OnnxNode& n, ValueId x, ValueId weights, ValueId bias);
// Under the attributes of AveragePool.
ValueId AveragePooled(OnnxNode& n, ValueId x, bool has_dilations);

// Products that several operators of ONNX ask for.

// alpha * a' * b', under the node's attributes.
ValueId ScaledProduct(OnnxNode& n, ValueId a, ValueId b);
// alpha * A' * B' + beta * C, under the node's attributes and of its first three inputs.
ValueId GeneralProduct(OnnxNode& n);

// Normalisations that several operators of ONNX ask for.

// x less its mean over `axes`, divided by sqrt(variance + epsilon), times scale, plus bias unless
// that is absent.
ValueId LayerNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                        ValueId scale, ValueId bias);
// Writes the mean to output `mean` and 1 / sqrt(variance + epsilon) to the one behind it, where
// they are read.
void WriteMoments(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                  int mean);
// x divided by sqrt(mean of its squares over `axes` + epsilon), times scale. `inverse`, unless it
// is negative: the output that the divisor's inverse is written to.
ValueId RmsNormalized(OnnxNode& n, ValueId x, const std::vector<int64_t>& axes, double epsilon,
                      ValueId scale, int inverse);

// Sequences of tensors, as exporters of recurrent models write them, become tensors: a list of step
// outputs that a Loop appends to and that is joined behind it, a tensor that is taken apart along
// an axis and indexed, a list that is written down. What is left is reported by CheckOnnxOperators.
// docs/graph-files.md, 'Sequences of tensors'.

// Domain of the operators that stand for sequences afterwards (onnx_control_flow.cc), version
// 1. No file may import it.
inline constexpr char kOnnxSequenceDomain[] = "beamwright.sequence";

// Rewrites the nodes that read sequences, in bodies too, where each sequence is one of these:
//   * SequenceEmpty, SequenceConstruct, and SequenceInsert at the end of such a list;
//   * SplitToSequence into parts of one;
//   * a state of a Loop that begins with SequenceEmpty and gets one SequenceInsert at its end in
//     every iteration: it becomes an output that the Loop joins.
// Their producers stay where they are, as nodes that no output needs. A reader is
// ConcatFromSequence, SequenceAt (of a list: at a constant) or SequenceLength. Everything else
// stays as it is. Unimplemented if a graph's output is a Loop's list; InvalidArgument if lists are
// read so often that a small file would take much memory.
absl::Status LowerOnnxSequences(onnx::GraphProto& graph);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_
