// What LSTM, GRU and RNN cells have in common, from the node's attributes to the arithmetic of a
// step:
//
// 1. ParseCell reads the options of a cell, ParseActivations its activation functions.
// 2. CellShapes checks the shapes of all inputs against each other and infers the outputs.
// 3. At run time a cell multiplies its input and its state with the weights (cells.cc) and then
//    either calls LstmGates or GruGates, which compute all gates of a row in one pass, or, with
//    unusual activations or peepholes, Activate once for each gate.
//
// Both ways give the same bits: the sums are added in the same order, and each element is computed
// by itself.
#include "ops/kernels/cell_parts.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "ops/base/status.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"

namespace beamwright::ops {

// Activations of recurrent cells: ParseActivations reads them by name with alpha and beta, Activate
// applies one to a span, after clipping. Each kind has a loop of its arithmetic alone, so that the
// compiler makes vectors of it (Apply).

namespace {

struct Entry {
  const char* name;
  Activation activation;  // with default alpha and beta
};

constexpr Entry kEntries[] = {
    {"sigmoid", {ActivationKind::kSigmoid}},
    {"tanh", {ActivationKind::kTanh}},
    {"relu", {ActivationKind::kRelu}},
    {"hardsigmoid", {ActivationKind::kHardSigmoid, 0.2f, 0.5f}},
    {"affine", {ActivationKind::kAffine, 1.0f, 0.0f}},
    {"leakyrelu", {ActivationKind::kLeakyRelu, 0.01f}},
    {"thresholdedrelu", {ActivationKind::kThresholdedRelu, 1.0f}},
    {"scaledtanh", {ActivationKind::kScaledTanh, 1.0f, 1.0f}},
    {"elu", {ActivationKind::kElu, 1.0f}},
    {"softsign", {ActivationKind::kSoftsign}},
};

template <typename F>
void Apply(absl::Span<float> values, F f) {
  float* const data = values.data();
  const size_t count = values.size();
  Vectorized([=]() BW_ALWAYS_INLINE {
    for (size_t i = 0; i < count; ++i) {
      data[i] = f(data[i]);
    }
  });
}

}  // namespace

// Names count without case. alpha and beta are lists by the place of the activation; where a list
// is shorter, the activation's default stays. Example: activations {"HardSigmoid", "Tanh"},
// activations_alpha {0.25}: hard sigmoid with alpha 0.25 and beta 0.5, and tanh.
absl::StatusOr<std::vector<Activation>> ParseActivations(const Attributes& attributes,
                                                         std::vector<std::string> defaults) {
  const size_t count = defaults.size();
  BW_ASSIGN_OR_RETURN(std::vector<std::string> names, attributes.Strings("activations", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<double> alpha, attributes.Floats("activations_alpha", {}));
  BW_ASSIGN_OR_RETURN(const std::vector<double> beta, attributes.Floats("activations_beta", {}));
  if (names.empty()) {
    names = std::move(defaults);
  }
  if (names.size() != count || alpha.size() > count || beta.size() > count) {
    return Invalid("attributes activations, activations_alpha, activations_beta: have ",
                   names.size(), ", ", alpha.size(), " and ", beta.size(),
                   " entries, the cell has ", count, " activations");
  }
  std::vector<Activation> result;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = absl::AsciiStrToLower(names[i]);
    const Entry* found = nullptr;
    for (const Entry& entry : kEntries) {
      found = name == entry.name ? &entry : found;
    }
    if (found == nullptr) {
      std::string known;
      for (const Entry& entry : kEntries) {
        absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
      }
      return Invalid("attribute activations: '", names[i], "' is not supported, only ", known);
    }
    Activation activation = found->activation;
    activation.alpha = i < alpha.size() ? static_cast<float>(alpha[i]) : activation.alpha;
    activation.beta = i < beta.size() ? static_cast<float>(beta[i]) : activation.beta;
    result.push_back(activation);
  }
  return result;
}

void Activate(const Activation& activation, float clip, absl::Span<float> values) {
  const float alpha = activation.alpha;
  const float beta = activation.beta;
  if (clip > 0) {
    Apply(values, [clip](float x) BW_ALWAYS_INLINE {
      const float low = x < -clip ? -clip : x;
      return low > clip ? clip : low;
    });
  }
  switch (activation.kind) {
    case ActivationKind::kSigmoid:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return Sigmoid(x); });
    case ActivationKind::kTanh:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return Tanh(x); });
    case ActivationKind::kRelu:
      return Apply(values, [](float x) BW_ALWAYS_INLINE { return x < 0.0f ? 0.0f : x; });
    case ActivationKind::kHardSigmoid:
      return Apply(values, [alpha, beta](float x) BW_ALWAYS_INLINE {
        const float y = alpha * x + beta;
        return y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y;
      });
    case ActivationKind::kAffine:
      return Apply(values, [alpha, beta](float x) BW_ALWAYS_INLINE { return alpha * x + beta; });
    case ActivationKind::kLeakyRelu:
      return Apply(values, [alpha](float x) BW_ALWAYS_INLINE { return x < 0.0f ? alpha * x : x; });
    case ActivationKind::kThresholdedRelu:
      return Apply(values, [alpha](float x) BW_ALWAYS_INLINE { return x > alpha ? x : 0.0f; });
    case ActivationKind::kScaledTanh:
      return Apply(values,
                   [alpha, beta](float x) BW_ALWAYS_INLINE { return alpha * Tanh(beta * x); });
    case ActivationKind::kElu:
      return Apply(values, [alpha](float x)
                               BW_ALWAYS_INLINE { return x < 0.0f ? alpha * (Exp(x) - 1.0f) : x; });
    case ActivationKind::kSoftsign:
      return Apply(values,
                   [](float x) BW_ALWAYS_INLINE { return x / (1.0f + (x < 0.0f ? -x : x)); });
  }
}

namespace {

// An LSTM's gates, element by element, with x the sums of the input, h those of the state, b bias:
//
//   f = sigmoid((xf + bf) + hf)      i = sigmoid((xi + bi) + hi)     in the order f, i, c, o in
//   memory g = tanh((xc + bc) + hc)         o = sigmoid((xo + bo) + ho) cell' = f * cell + i * g
//   hidden' = o * tanh(cell')
//
// The pointers of a lambda's captures are not restrict; those of these functions are, so that the
// loops need no checks for overlap.
template <bool kBias>
BW_ALWAYS_INLINE inline void LstmLoop(const CellSums& sums, const float* __restrict cell,
                                      int64_t count, float* __restrict new_cell,
                                      float* __restrict new_hidden) {
  const float* __restrict const xf = sums.input;
  const float* __restrict const xi = xf + sums.input_stride;
  const float* __restrict const xc = xi + sums.input_stride;
  const float* __restrict const xo = xc + sums.input_stride;
  const float* __restrict const hf = sums.recurrent;
  const float* __restrict const hi = hf + sums.recurrent_stride;
  const float* __restrict const hc = hi + sums.recurrent_stride;
  const float* __restrict const ho = hc + sums.recurrent_stride;
  const float* __restrict const bf = sums.bias;
  const float* __restrict const bi = kBias ? bf + sums.bias_stride : nullptr;
  const float* __restrict const bc = kBias ? bi + sums.bias_stride : nullptr;
  const float* __restrict const bo = kBias ? bc + sums.bias_stride : nullptr;
  for (int64_t k = 0; k < count; ++k) {
    const float f = Sigmoid((kBias ? xf[k] + bf[k] : xf[k]) + hf[k]);
    const float i = Sigmoid((kBias ? xi[k] + bi[k] : xi[k]) + hi[k]);
    const float g = Tanh((kBias ? xc[k] + bc[k] : xc[k]) + hc[k]);
    const float o = Sigmoid((kBias ? xo[k] + bo[k] : xo[k]) + ho[k]);
    const float c = f * cell[k] + i * g;
    new_cell[k] = c;
    new_hidden[k] = o * Tanh(c);
  }
}

// A GRU's gates with linear_before_reset, in the order z, r, h in memory. The state's part of h has
// a separate bias, the fourth, which the reset gate scales too:
//
//   z = sigmoid((xz + bz) + hz)      r = sigmoid((xr + br) + hr)
//   g = tanh((xh + bh) + r * (hh + bhh))
//   hidden' = (1 - z) * g + z * hidden
template <bool kBias>
BW_ALWAYS_INLINE inline void GruLoop(const CellSums& sums, const float* __restrict old,
                                     int64_t count, float* __restrict new_hidden) {
  const float* __restrict const xz = sums.input;
  const float* __restrict const xr = xz + sums.input_stride;
  const float* __restrict const xh = xr + sums.input_stride;
  const float* __restrict const hz = sums.recurrent;
  const float* __restrict const hr = hz + sums.recurrent_stride;
  const float* __restrict const hh = hr + sums.recurrent_stride;
  const float* __restrict const bz = sums.bias;
  const float* __restrict const br = kBias ? bz + sums.bias_stride : nullptr;
  const float* __restrict const bh = kBias ? br + sums.bias_stride : nullptr;
  const float* __restrict const bhh = kBias ? bh + sums.bias_stride : nullptr;
  for (int64_t k = 0; k < count; ++k) {
    const float z = Sigmoid((kBias ? xz[k] + bz[k] : xz[k]) + hz[k]);
    const float r = Sigmoid((kBias ? xr[k] + br[k] : xr[k]) + hr[k]);
    const float g = Tanh((kBias ? xh[k] + bh[k] : xh[k]) + r * (hh[k] + (kBias ? bhh[k] : 0.0f)));
    new_hidden[k] = (1.0f - z) * g + z * old[k];
  }
}

}  // namespace

void LstmGates(const CellSums& sums, const float* cell, int64_t count, float* new_cell,
               float* new_hidden) {
  if (sums.bias == nullptr) {
    Vectorized([=]()
                   BW_ALWAYS_INLINE { LstmLoop<false>(sums, cell, count, new_cell, new_hidden); });
  } else {
    Vectorized([=]() BW_ALWAYS_INLINE { LstmLoop<true>(sums, cell, count, new_cell, new_hidden); });
  }
}

void GruGates(const CellSums& sums, const float* old, int64_t count, float* new_hidden) {
  if (sums.bias == nullptr) {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<false>(sums, old, count, new_hidden); });
  } else {
    Vectorized([=]() BW_ALWAYS_INLINE { GruLoop<true>(sums, old, count, new_hidden); });
  }
}

// The options of recurrent cells (ParseCell) and the check of their inputs' shapes (CellShapes).
// All inputs share a few extents (rows, input size, hidden size, rows of all gates); CheckInput
// merges what each input says about them, so that an error names the input that disagrees. IsUsual:
// the activations and options for which the fused cells are made.

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

// Extents that are not known yet are -1, and each input may make them known: X [rows, input], H and
// C [rows, hidden], W [gates * hidden, input] (or [.., input + hidden] where R is a part of it), R
// [gates * hidden, hidden], B [bias size], P [3 * hidden]. Where X is a finished product, or the
// gates' sums, its second extent is gates * hidden.
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
