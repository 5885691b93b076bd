// The options of recurrent cells (ParseCell) and the check of their inputs' shapes (CellShapes).
// All inputs share a few extents (rows, input size, hidden size, rows of all gates); CheckInput
// merges what each input says about them, so that an error names the input that disagrees. IsUsual:
// the activations and options for which the fused cells are made.
#include "ops/kernels/cell_options.h"

#include <string>
#include <utility>

#include "ops/base/status.h"
#include "ops/kernels/inputs.h"

namespace beamwright::ops {
namespace {

// An input that must have X's type and the given extents (-1: any; merged into `extents`).
absl::Status CheckInput(absl::Span<const InputInfo> inputs, int index, absl::string_view name,
                        absl::Span<int64_t* const> extents) {
  if (index < 0 || !Present(inputs, static_cast<size_t>(index))) {
    return absl::OkStatus();
  }
  const InputInfo& input = inputs[static_cast<size_t>(index)];
  BW_RETURN_IF_ERROR(ExpectType(input, name, {DType::kF32, DType::kF16, DType::kBF16}));
  if (input.dtype != inputs[0].dtype) {
    return Invalid(name, ": element type ", Name(input.dtype), " is not that of X, ",
                   Name(inputs[0].dtype));
  }
  BW_RETURN_IF_ERROR(ExpectRank(input, name, static_cast<int>(extents.size())));
  for (size_t axis = 0; axis < extents.size() && input.shape.has_rank(); ++axis) {
    const absl::StatusOr<int64_t> merged =
        MergeExtents(*extents[axis], input.shape.dim(static_cast<int>(axis)));
    if (!merged.ok()) {
      return Invalid(name, ": extent ", input.shape.dim(static_cast<int>(axis)), " of axis ", axis,
                     " of shape ", input.shape.ToString(), " must be ", *extents[axis]);
    }
    *extents[axis] = *merged;
  }
  return absl::OkStatus();
}

}  // namespace

bool CellOptions::IsUsual() const {
  for (size_t i = 0; i < activations.size(); ++i) {
    const ActivationKind usual = i == 0 ? ActivationKind::kSigmoid : ActivationKind::kTanh;
    if (activations[i].kind != usual) {
      return false;
    }
  }
  return clip == 0 && !input_forget && !input_is_gates;
}

absl::StatusOr<CellOptions> ParseCell(const Node& node, Cell cell) {
  CellOptions options;
  options.cell = cell;
  options.gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
  BW_ASSIGN_OR_RETURN(options.hidden, node.attributes.Int("hidden_size", 0));
  if (options.hidden < 1 || options.hidden > (int64_t{1} << 24)) {
    return Invalid("attribute hidden_size: ", options.hidden, " must be in [1, 2^24]");
  }
  BW_ASSIGN_OR_RETURN(const double clip, node.attributes.Float("clip", 0));
  if (!(clip >= 0)) {
    return Invalid("attribute clip: ", clip, " must not be negative");
  }
  options.clip = static_cast<float>(clip);
  std::vector<std::string> defaults = {"tanh"};
  if (cell != Cell::kRnn) {
    defaults = cell == Cell::kLstm ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                   : std::vector<std::string>{"sigmoid", "tanh"};
  }
  BW_ASSIGN_OR_RETURN(options.activations, ParseActivations(node.attributes, std::move(defaults)));
  if (cell == Cell::kGru) {
    BW_ASSIGN_OR_RETURN(options.linear_before_reset,
                        node.attributes.Bool("linear_before_reset", false));
  }
  BW_ASSIGN_OR_RETURN(options.input_is_product, node.attributes.Bool("input_is_product", false));
  if (cell == Cell::kLstm) {
    BW_ASSIGN_OR_RETURN(options.joined, node.attributes.Bool("weights_joined", false));
    BW_ASSIGN_OR_RETURN(options.input_forget, node.attributes.Bool("input_forget", false));
    BW_ASSIGN_OR_RETURN(options.input_is_gates, node.attributes.Bool("input_is_gates", false));
    BW_ASSIGN_OR_RETURN(const std::string format, node.attributes.String("weights_format", "fico"));
    if (format != "fico") {
      return Invalid("attribute weights_format: '", format, "' is not supported, only fico");
    }
  }
  return options;
}

absl::Status CellShapes(const CellOptions& options, absl::Span<const InputInfo> inputs,
                        absl::Span<ValueInfo> outputs) {
  const bool is_product = options.input_is_product || options.input_is_gates;
  const size_t required = static_cast<size_t>(is_product ? options.w() : options.b());
  const size_t most = static_cast<size_t>(options.p() < 0 ? options.b() + 1 : options.p() + 1);
  const size_t num_outputs = options.cell == Cell::kLstm ? 2 : 1;
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, required, most, outputs, num_outputs));
  int64_t rows = PartialShape::kDynamic;
  int64_t input_size = PartialShape::kDynamic;
  int64_t hidden = options.hidden;
  int64_t gate_rows = options.gates * hidden;
  if (options.input_is_gates) {
    if (options.joined || options.input_is_product ||
        Present(inputs, static_cast<size_t>(options.w())) ||
        Present(inputs, static_cast<size_t>(options.r()))) {
      return Invalid("attribute input_is_gates: there must be no W and no R then");
    }
    input_size = gate_rows;
  }
  if (options.input_is_product) {
    if (options.joined || Present(inputs, static_cast<size_t>(options.w())) ||
        !Present(inputs, static_cast<size_t>(options.r()))) {
      return Invalid("attribute input_is_product: there must be no W then, and R");
    }
    input_size = gate_rows;
  }
  int64_t bias_size = options.bias_size();
  int64_t peephole_size = 3 * hidden;
  BW_RETURN_IF_ERROR(CheckInput(inputs, 0, "X", {&rows, &input_size}));
  BW_RETURN_IF_ERROR(CheckInput(inputs, 1, "H", {&rows, &hidden}));
  BW_RETURN_IF_ERROR(CheckInput(inputs, options.c(), "C", {&rows, &hidden}));
  if (options.joined) {
    int64_t both = input_size < 0 ? PartialShape::kDynamic : input_size + hidden;
    BW_RETURN_IF_ERROR(CheckInput(inputs, options.w(), "W", {&gate_rows, &both}));
    if (both >= 0 && both < hidden) {
      return Invalid("W: ", both, " columns do not hold hidden_size ", hidden, " of H");
    }
  } else {
    BW_RETURN_IF_ERROR(CheckInput(inputs, options.w(), "W", {&gate_rows, &input_size}));
    BW_RETURN_IF_ERROR(CheckInput(inputs, options.r(), "R", {&gate_rows, &hidden}));
  }
  BW_RETURN_IF_ERROR(CheckInput(inputs, options.b(), "B", {&bias_size}));
  BW_RETURN_IF_ERROR(CheckInput(inputs, options.p(), "P", {&peephole_size}));
  for (ValueInfo& output : outputs) {
    output.dtype = inputs[0].dtype;
    output.shape = PartialShape({rows, hidden});
  }
  return absl::OkStatus();
}

}  // namespace beamwright::ops
