// The operators that graphs may hold, one line each: name, functions, attributes that it reads. An
// importer refuses an attribute that the line does not list, since ignoring it could change
// results.
//
// KernelOperators makes the set once. Families share their code under several names: kReal serves
// every function of one real number and finds its own by the node's name.
#include "ops/kernels/attention.h"
#include "ops/kernels/cells.h"
#include "ops/kernels/convolution.h"
#include "ops/kernels/einsum.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/kernels/embedding_sum.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/matmul.h"
#include "ops/kernels/movement.h"
#include "ops/kernels/quantization.h"
#include "ops/kernels/reduce.h"
#include "ops/kernels/selection.h"
#include "ops/kernels/state_update.h"
#include "ops/kernels/windows.h"

namespace beamwright::ops {
namespace {

using Names = std::vector<absl::string_view>;

Operator Line(absl::string_view name, const OperatorCode& code, Names attributes = {}) {
  // What these do to a leading axis of extent 1 is NumPy's broadcasting.
  const bool broadcasts_rows =
      code.rows == &ElementwiseRows || code.rows == kMatMul.rows || code.rows == kAttention.rows;
  return {name, code.infer, code.make, code.rows, std::move(attributes), broadcasts_rows};
}

}  // namespace

// clang-format off
std::vector<Operator> KernelOperators(Precision weights) {
  return {
      Line("Abs", kUnary),
      Line("Acos", kReal),
      Line("Acosh", kReal),
      Line("Add", kArithmetic, {"auto_broadcast"}),
      Line(kAddedNormName, kAddedNorm, {"eps"}),
      Line("ArgMax", kArgExtreme, {"axis", "keepdims", "select_last_index"}),
      Line("ArgMin", kArgExtreme, {"axis", "keepdims", "select_last_index"}),
      Line("Asin", kReal),
      Line("Asinh", kReal),
      Line("Atan", kReal),
      Line("Atanh", kReal),
      Line(kAttentionName, kAttention, {"transpose_b", "scale"}),
      Line("AvgPool", kAvgPool, {"kernel", "strides", "dilations", "pads_begin", "pads_end", "auto_pad", "rounding_type", "exclude-pad"}),
      Line("BatchNormInference", kBatchNormInference, {"epsilon"}),
      Line(kBiasedProductName, BiasedProductIn(weights), {"transpose_b", "relu"}),
      Line("BitCast", kBitCast, {"destination_type"}),
      Line("BitwiseAnd", kLogical, {"auto_broadcast"}),
      Line("BitwiseNot", kNot),
      Line("BitwiseOr", kLogical, {"auto_broadcast"}),
      Line("BitwiseXor", kLogical, {"auto_broadcast"}),
      Line("Broadcast", kBroadcast, {"mode"}),
      Line("Ceiling", kUnary),
      Line("Clamp", kClamp, {"min", "max"}),
      Line("Concat", kConcat, {"axis"}),
      Line("Convert", kConvert, {"destination_type"}),
      Line("ConvertLike", kConvertLike),
      Line("Convolution", kConvolution, {"strides", "dilations", "pads_begin", "pads_end", "auto_pad"}),
      Line("ConvolutionBackpropData", kConvolutionBackpropData, {"strides", "dilations", "pads_begin", "pads_end", "auto_pad", "output_padding"}),
      Line(kConvolutionChainName, kConvolutionChain, {"strides", "dilations", "pads_begin", "pads_end", "auto_pad", "grouped", "functions", "operands", "bounds", "windows", "results"}),
      Line("Cos", kReal),
      Line("Cosh", kReal),
      Line("CumProd", kCumProd, {"exclusive", "reverse"}),
      Line("CumSum", kCumSum, {"exclusive", "reverse"}),
      Line("DepthToSpace", kDepthSpace, {"block_size", "mode"}),
      Line("DequantizeLinear", kDequantizeLinear, {"axis", "block_size"}),
      Line("Divide", kArithmetic, {"auto_broadcast", "m_pythondiv"}),
      Line("DynamicQuantizeLinear", kDynamicQuantizeLinear, {"item_axis", "item_extent"}),
      Line("Einsum", kEinsum, {"equation"}),
      Line(kElementwiseChainName, kElementwiseChain, {"functions", "operands", "bounds", "windows", "results"}),
      Line("Elu", kAttributeActivation, {"alpha"}),
      Line("EmbeddingBagOffsets", kEmbeddingBagOffsets, {"reduction"}),
      Line("EmbeddingBagOffsetsSum", kEmbeddingBagOffsets),
      Line("EmbeddingBagPacked", kEmbeddingBagPacked, {"reduction"}),
      Line("EmbeddingBagPackedSum", kEmbeddingBagPacked),
      Line("EmbeddingSegmentsSum", kEmbeddingSegmentsSum),
      Line("Equal", kComparison, {"auto_broadcast"}),
      Line("Erf", kReal),
      Line("Exp", kReal),
      Line("Eye", kEye, {"output_type"}),
      Line("FakeQuantize", kFakeQuantize, {"levels", "auto_broadcast"}),
      Line(kFirstRowName, kFirstRow),
      Line("Floor", kUnary),
      Line("FloorMod", kArithmetic, {"auto_broadcast"}),
      Line("GRUCell", GruCellIn(weights), {"hidden_size", "activations", "activations_alpha", "activations_beta", "clip", "linear_before_reset", "input_is_product"}),
      Line("Gather", GatherIn(weights), {"batch_dims"}),
      Line("GatherElements", kGatherElements, {"axis"}),
      Line("GatherND", kGatherNd, {"batch_dims", "joins_batch"}),
      Line("GatherTree", kGatherTree),
      Line("Gelu", kAttributeActivation, {"approximation_mode"}),
      Line("Greater", kComparison, {"auto_broadcast"}),
      Line("GreaterEqual", kComparison, {"auto_broadcast"}),
      Line("GroupConvolution", kGroupConvolution, {"strides", "dilations", "pads_begin", "pads_end", "auto_pad"}),
      Line("GroupConvolutionBackpropData", kGroupConvolutionBackpropData, {"strides", "dilations", "pads_begin", "pads_end", "auto_pad", "output_padding"}),
      Line("GroupNormalization", kGroupNormalization, {"num_groups", "epsilon"}),
      Line(kGuardedSoftPlusName, kReal),
      Line("HSigmoid", kReal),
      Line("HSwish", kReal),
      Line("HardSigmoid", kInputActivation),
      Line("IsFinite", kClassify),
      Line("IsInf", kClassify, {"detect_negative", "detect_positive"}),
      Line("IsNaN", kClassify),
      Line("LSTMCell", LstmCellIn(weights), {"hidden_size", "activations", "activations_alpha", "activations_beta", "clip", "input_forget", "weights_format", "weights_joined", "input_is_product", "input_is_gates"}),
      Line("Less", kComparison, {"auto_broadcast"}),
      Line("LessEqual", kComparison, {"auto_broadcast"}),
      Line("Log", kReal),
      Line("LogSoftmax", kSoftmax, {"axis"}),
      Line("LogicalAnd", kLogical, {"auto_broadcast"}),
      Line("LogicalNot", kNot),
      Line("LogicalOr", kLogical, {"auto_broadcast"}),
      Line("LogicalXor", kLogical, {"auto_broadcast"}),
      Line("MVN", kMvn, {"eps", "eps_mode", "normalize_variance", "across_channels"}),
      Line("MatMul", MatMulIn(weights), {"transpose_a", "transpose_b"}),
      Line("MatMulInteger", kMatMulInteger),
      Line("MaxPool", kMaxPool, {"kernel", "strides", "dilations", "pads_begin", "pads_end", "auto_pad", "rounding_type", "index_element_type", "axis"}),
      Line("Maximum", kArithmetic, {"auto_broadcast"}),
      Line("Minimum", kArithmetic, {"auto_broadcast"}),
      Line("Mish", kReal),
      Line("Mod", kArithmetic, {"auto_broadcast"}),
      Line("Multiply", kArithmetic, {"auto_broadcast"}),
      Line("Negative", kUnary),
      Line("NonZero", kNonZero, {"output_type"}),
      Line("NormalizeL2", kNormalizeL2, {"eps", "eps_mode"}),
      Line("NotEqual", kComparison, {"auto_broadcast"}),
      Line("OneHot", kOneHot, {"axis", "negative_indices_mode"}),
      Line("PReLU", kPrelu),
      Line("Pad", kPad, {"pad_mode"}),
      Line("Power", kArithmetic, {"auto_broadcast"}),
      Line("QLinearMatMul", kQLinearMatMul),
      Line("QuantizeLinear", kQuantizeLinear, {"axis", "block_size", "output_dtype", "saturate"}),
      Line("RNNCell", RnnCellIn(weights), {"hidden_size", "activations", "activations_alpha", "activations_beta", "clip", "input_is_product"}),
      Line("Range", kRange, {"output_type"}),
      Line("ReLU", kUnary),
      Line("ReduceL1", kReduce, {"keep_dims"}),
      Line("ReduceL2", kReduce, {"keep_dims"}),
      Line("ReduceLogicalAnd", kReduce, {"keep_dims"}),
      Line("ReduceLogicalOr", kReduce, {"keep_dims"}),
      Line("ReduceMax", kReduce, {"keep_dims"}),
      Line("ReduceMean", kReduce, {"keep_dims"}),
      Line("ReduceMin", kReduce, {"keep_dims"}),
      Line("ReduceProd", kReduce, {"keep_dims"}),
      Line("ReduceSum", kReduce, {"keep_dims"}),
      Line(kRelativeShiftName, kRelativeShift),
      Line("Reshape", kReshape, {"special_zero"}),
      Line("Reverse", kReverse, {"mode"}),
      Line("ReverseSequence", kReverseSequence, {"batch_axis", "seq_axis"}),
      Line("Round", kUnary, {"mode"}),
      Line(kScaledIntegerProductName, kScaledIntegerProduct),
      Line("ScatterElementsUpdate", kScatterElements, {"reduction", "use_init_val"}),
      Line("ScatterNDUpdate", kScatterNd, {"reduction"}),
      Line("ScatterUpdate", kScatterUpdate),
      Line("Select", kSelect, {"auto_broadcast"}),
      Line("Selu", kInputActivation),
      Line("ShapeOf", kShapeOf, {"output_type"}),
      Line("ShuffleChannels", kShuffleChannels, {"axis", "group"}),
      Line("Sigmoid", kReal),
      Line("Sign", kUnary),
      Line("Sin", kReal),
      Line("Sinh", kReal),
      Line("Slice", kSlice),
      Line("SoftMax", kSoftmax, {"axis"}),
      Line("SoftPlus", kReal),
      Line("SoftSign", kReal),
      Line("SpaceToDepth", kDepthSpace, {"block_size", "mode"}),
      Line("Split", kSplit, {"num_splits"}),
      Line("Sqrt", kReal),
      Line("SquaredDifference", kArithmetic, {"auto_broadcast"}),
      Line("Squeeze", kSqueeze, {"allow_axis_skip"}),
      Line(kStableSoftPlusName, kReal),
      Line(kStateUpdateName, kStateUpdate, {"rule", "keys_last"}),
      Line("StridedSlice", kStridedSlice, {"begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"}),
      Line("Subtract", kArithmetic, {"auto_broadcast"}),
      Line("Swish", kInputActivation),
      Line("Tan", kReal),
      Line("Tanh", kReal),
      Line("Tile", kTile),
      Line("TopK", kTopK, {"axis", "mode", "sort", "index_element_type", "stable"}),
      Line("Transpose", kTranspose),
      Line("Unique", kUnique, {"sorted", "index_element_type", "count_element_type"}),
      Line("Unsqueeze", kUnsqueeze),
      Line("VariadicSplit", kVariadicSplit),
  };
}
// clang-format on

}  // namespace beamwright::ops
