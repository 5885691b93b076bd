// Sequences of tensors, as exporters of recurrent models write them, become tensors: a list of step
// outputs that a Loop appends to and that is joined behind it, a tensor that is taken apart along
// an axis and indexed, a list that is written down. What is left is reported by CheckOnnxOperators.
// docs/graph-files.md, 'Sequences of tensors'. Private to import/.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_SEQUENCES_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_SEQUENCES_H_

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"

namespace beamwright::ops {

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

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_SEQUENCES_H_
