// The vocabulary: which operators of ONNX's default domain are known, in which versions, and what
// each becomes. Operators stand in the files of their families (onnx_elementwise.cc and so on); a
// new one adds a line to its family's table. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_

#include <vector>

#include "absl/strings/string_view.h"
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
std::vector<OnnxOperator> OnnxActivations();    // onnx_activation.cc
std::vector<OnnxOperator> OnnxAttention();      // onnx_attention.cc
std::vector<OnnxOperator> OnnxControlFlow();    // onnx_control_flow.cc
std::vector<OnnxOperator> OnnxConvolutions();   // onnx_convolution.cc
std::vector<OnnxOperator> OnnxCreation();       // onnx_creation.cc
std::vector<OnnxOperator> OnnxElementwise();    // onnx_elementwise.cc
std::vector<OnnxOperator> OnnxGather();         // onnx_gather.cc
std::vector<OnnxOperator> OnnxLinearStates();   // onnx_linear_states.cc
std::vector<OnnxOperator> OnnxMatMul();         // onnx_matmul.cc
std::vector<OnnxOperator> OnnxMovement();       // onnx_movement.cc
std::vector<OnnxOperator> OnnxNormalization();  // onnx_normalization.cc
std::vector<OnnxOperator> OnnxQuantized();      // onnx_quantized.cc
std::vector<OnnxOperator> OnnxRecurrent();      // onnx_recurrent.cc
std::vector<OnnxOperator> OnnxReductions();     // onnx_reduce.cc
std::vector<OnnxOperator> OnnxShapes();         // onnx_shape.cc
std::vector<OnnxOperator> OnnxSignal();         // onnx_signal.cc
// Of com.microsoft, ONNX Runtime's own.
std::vector<OnnxOperator> OnnxMicrosoftAttention();     // onnx_attention.cc
std::vector<OnnxOperator> OnnxMicrosoftFused();         // onnx_fused.cc
std::vector<OnnxOperator> OnnxMicrosoftLinearStates();  // onnx_linear_states.cc
std::vector<OnnxOperator> OnnxMicrosoftQuantized();     // onnx_quantized.cc
std::vector<OnnxOperator> OnnxMicrosoftRecurrent();     // onnx_recurrent.cc
// Of kOnnxSequenceDomain: onnx_sequence_operators.cc.
std::vector<OnnxOperator> OnnxSequenceOperators();

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_OPERATORS_H_
