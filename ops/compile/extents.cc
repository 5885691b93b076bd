// One sweep over the nodes, in their order, so that the inputs of a node are known before it. For
// each output (Run, Complete):
//
// 1. The shape as far as it follows from elements: the target of a Reshape, the lists of a Slice
//    (SpecialShape). For a Loop, what its body gives (FollowLoop).
// 2. Numbers that inference knows, or knows once it sees the numbers of step 1 (InferredAgain).
// 3. Symbols that the operator hands on: each symbol of an input takes the place of the number of
//    rows in Operator::rows (HandOn). Extents that are still open get new symbols.
// 4. Elements of short lists of integers: computed, or by rules of arithmetic (short_lists.cc).
// 5. Values that are one number everywhere, and bounds of elements (filled_values.cc).
//
// [2 * rows, time] through Reshape to [rows, 2, time], by example: step 4 of ShapeOf has the
// elements {2 * rows, time}; step 4 of Divide by 2 has rows; step 1 of the Reshape has its shape.
#include "ops/compile/extents.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ops/compile/filled_values.h"
#include "ops/compile/short_lists.h"
#include "ops/kernels/windows.h"

namespace beamwright::ops {

std::optional<Extent> Product(const Extent& a, const Extent& b) {
  Extent product;
  if (__builtin_mul_overflow(a.number, b.number, &product.number)) {
    return std::nullopt;
  }
  if (product.number != 0) {
    product.symbols = a.symbols;
    product.symbols.insert(product.symbols.end(), b.symbols.begin(), b.symbols.end());
    std::sort(product.symbols.begin(), product.symbols.end());
  }
  return product;
}

std::optional<Extent> Product(absl::Span<const Extent> extents) {
  std::optional<Extent> product = Extent{};
  for (const Extent& extent : extents) {
    product = product.has_value() ? Product(*product, extent) : product;
  }
  return product;
}

std::optional<Extent> Quotient(const Extent& a, const Extent& b) {
  if (b.number <= 0 || a.number % b.number != 0) {
    return std::nullopt;
  }
  Extent quotient{a.number / b.number, a.symbols};
  for (const int symbol : b.symbols) {
    const auto at = std::find(quotient.symbols.begin(), quotient.symbols.end(), symbol);
    if (at == quotient.symbols.end()) {
      return std::nullopt;
    }
    quotient.symbols.erase(at);
  }
  return quotient;
}

// A sum is a map from products of symbols to how often each is taken. A symbol that stands for a
// sum is replaced by its terms, so that (L + 1) + 1 and L + 2 are one symbol.
bool Symbols::AddTerms(const Extent& extent, int64_t sign, Terms& terms) const {
  const auto sum = extent.symbols.size() == 1 ? terms_.find(extent.symbols[0]) : terms_.end();
  const Terms single = {{extent.symbols, 1}};
  for (const auto& [symbols, count] : sum == terms_.end() ? single : sum->second) {
    int64_t scaled = 0;
    int64_t& total = terms[symbols];
    if (__builtin_mul_overflow(count, extent.number, &scaled) ||
        __builtin_mul_overflow(scaled, sign, &scaled) ||
        __builtin_add_overflow(total, scaled, &total)) {
      return false;
    }
  }
  return true;
}

std::optional<Extent> Symbols::Combine(const Extent& a, const Extent& b, int64_t sign) {
  Terms terms;
  return AddTerms(a, 1, terms) && AddTerms(b, sign, terms)
             ? std::optional(OfTerms(std::move(terms)))
             : std::nullopt;
}

Extent Symbols::OfTerms(Terms terms) {
  int64_t divisor = 0;
  for (auto at = terms.begin(); at != terms.end();) {
    divisor = std::gcd(divisor, at->second);
    at = at->second == 0 ? terms.erase(at) : std::next(at);
  }
  if (terms.size() < 2) {
    return terms.empty() ? Extent{0, {}} : Extent{terms.begin()->second, terms.begin()->first};
  }
  // Multiples of one sum are multiples of one symbol.
  divisor *= terms.begin()->second < 0 ? -1 : 1;
  bool is_extent = true;
  for (auto& [symbols, count] : terms) {
    count /= divisor;
    is_extent = is_extent && Extent{count, symbols}.is_extent();
  }
  const auto [sum, is_new] = sums_.try_emplace(terms, 0);
  if (is_new) {
    sum->second = (is_extent ? New() : NewInteger()).symbols[0];
    terms_[sum->second] = std::move(terms);
  }
  return Extent{divisor, {sum->second}};
}

bool Symbols::Unnest(Terms& terms, int64_t& divisor) const {
  const auto number = terms.find({});
  const int64_t added = number == terms.end() ? 0 : number->second;
  if (terms.size() != (number == terms.end() ? 1 : 2)) {
    return true;
  }
  const auto& [symbols, count] = *terms.rbegin();  // no symbols come first
  const auto inner = symbols.size() == 1 ? rounded_.find(symbols[0]) : rounded_.end();
  if (count != 1 || inner == rounded_.end()) {
    return true;
  }
  Terms unnested = inner->second.first;
  const int64_t factor = inner->second.second;
  int64_t scaled = 0;
  int64_t& total = unnested[{}];
  if (__builtin_mul_overflow(added, factor, &scaled) ||
      __builtin_add_overflow(total, scaled, &total) ||
      __builtin_mul_overflow(divisor, factor, &divisor)) {
    return false;
  }
  terms = std::move(unnested);
  return true;
}

std::optional<Extent> Symbols::Floor(const Extent& a, int64_t divisor) {
  Terms terms;
  if (!AddTerms(a, 1, terms) || !Unnest(terms, divisor)) {
    return std::nullopt;
  }
  // Whole multiples leave it; the rest is what is rounded.
  Terms quotient;
  Terms rest;
  bool is_extent = true;
  for (const auto& [symbols, count] : terms) {
    const int64_t left = (count % divisor + divisor) % divisor;
    quotient[symbols] = (count - left) / divisor;
    if (left != 0) {
      rest[symbols] = left;
      is_extent = is_extent && Extent{left, symbols}.is_extent();
    }
  }
  if (rest.empty() || (rest.size() == 1 && rest.begin()->first.empty())) {
    return OfTerms(std::move(quotient));
  }
  const auto [floor, is_new] = floors_.try_emplace({rest, divisor}, 0);
  if (is_new) {
    floor->second = (is_extent ? New() : NewInteger()).symbols[0];
    rounded_[floor->second] = {std::move(rest), divisor};
  }
  quotient[{floor->second}] += 1;
  return OfTerms(std::move(quotient));
}

bool Symbols::AtMost(const Extent& a, const Extent& b) {
  Terms terms;
  return AddTerms(b, 1, terms) && AddTerms(a, -1, terms) &&
         std::all_of(terms.begin(), terms.end(), [](const auto& term) {
           return term.second == 0 || Extent{term.second, term.first}.is_extent();
         });
}

std::vector<int> Symbols::Parts(int symbol) const {
  std::vector<int> parts;
  std::vector<int> left = {symbol};
  std::set<int> seen = {symbol};
  while (!left.empty()) {
    const int next = left.back();
    left.pop_back();
    const auto sum = terms_.find(next);
    const auto rounded = rounded_.find(next);
    if (sum == terms_.end() && rounded == rounded_.end()) {
      parts.push_back(next);
      continue;
    }
    for (const auto& [symbols, count] : sum != terms_.end() ? sum->second : rounded->second.first) {
      for (const int part : symbols) {
        if (seen.insert(part).second) {
          left.push_back(part);
        }
      }
    }
  }
  return parts;
}

Extent AlignedAt(const std::vector<Extent>& extents, size_t rank, size_t place) {
  const size_t front = rank - extents.size();
  return place < front ? Extent{} : extents[place - front];
}

namespace {

using Kind = RowInfo::Kind;

// Symbols that are followed through one node; a node with more is no shape arithmetic.
constexpr size_t kMostSymbols = 16;
// Of what the inputs of one node may be taken for.
constexpr size_t kMostChoices = 64;

// An axis of a rule of a loop, counted from the front; nothing if there is no such axis, which
// inference has not seen where it knew no rank.
std::optional<size_t> AxisOf(int64_t axis, size_t rank) {
  const int64_t from_front = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  return from_front >= 0 && from_front < static_cast<int64_t>(rank)
             ? std::optional<size_t>(static_cast<size_t>(from_front))
             : std::nullopt;
}

std::optional<std::vector<Extent>> Declared(const PartialShape& shape, Symbols& symbols) {
  if (!shape.has_rank()) {
    return std::nullopt;
  }
  std::vector<Extent> dims;
  for (const int64_t dim : shape.dims()) {
    dims.push_back(dim == PartialShape::kDynamic ? symbols.New() : Extent{dim, {}});
  }
  return dims;
}

}  // namespace

void ShareExtent(int64_t axis, int64_t number, Node& parameter) {
  const PartialShape& shape = parameter.outputs[0].shape;
  if (shape.has_rank() && axis > 0 && axis < shape.rank() &&
      shape.dim(static_cast<int>(axis)) == PartialShape::kDynamic) {
    parameter.attributes.Set(kSharedExtent, std::vector<int64_t>{axis, number});
  }
}

bool TakesEveryElement(const LoopInput& rule) {
  const bool forward = rule.start == 0 && rule.end == -1 && rule.stride == 1;
  const bool backward = rule.start == -1 && rule.end == 0 && rule.stride == -1;
  return rule.kind == LoopInput::Kind::kSliced && rule.part_size == 1 && (forward || backward);
}

class ExtentsFinder {
 public:
  ExtentsFinder(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                Symbols& symbols)
      : graph_(graph), info_(info), operators_(operators), symbols_(symbols) {}

  Extents Run(const std::vector<ValueExtents>& parameters) {
    found_.values_.resize(graph_.nodes.size());
    found_.bodies_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      found_.values_[i].resize(graph_.nodes[i].outputs.size());
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      found_.values_[static_cast<size_t>(graph_.parameters[i])][0] = parameters[i];
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      std::vector<ValueExtents>& outputs = found_.values_[i];
      // 1.
      if (node.op == "Loop") {
        FollowLoop(static_cast<int>(i), outputs);
      } else if (node.op != "Parameter" && node.op != "Constant" && outputs.size() == 1) {
        outputs[0].shape = SpecialShape(node);
      } else if (node.op == "DynamicQuantizeLinear") {
        outputs[0].shape = Input(node, 0).shape;
      } else if (node.op == "MaxPool") {  // with the places of its results
        outputs[0].shape = WindowedShape(node);
      }
      for (size_t output = 0; output < outputs.size(); ++output) {
        Complete(static_cast<int>(i), output, outputs[output]);
      }
    }
    return std::move(found_);
  }

 private:
  const ValueExtents& Input(const Node& node, size_t port) const {
    static const ValueExtents absent;
    return port < node.inputs.size() && node.inputs[port].present() ? found_.of(node.inputs[port])
                                                                    : absent;
  }

  // Shapes that follow from the elements of an input.
  std::optional<std::vector<Extent>> SpecialShape(const Node& node) {
    if (node.op == "Reshape") {
      return ReshapedTo(Input(node, 0), Input(node, 1),
                        node.attributes.Bool("special_zero", true).value_or(true));
    }
    if (node.op == "Broadcast" && IsNumpyBroadcast(node)) {
      const auto& target = Input(node, 1).elements;
      const bool extents =
          target.has_value() && std::all_of(target->begin(), target->end(),
                                            [](const Extent& e) { return e.is_extent(); });
      return extents ? target : std::nullopt;
    }
    if (node.op == "Broadcast" && IsBidirectional(node)) {
      return WidenedTo(Input(node, 0).shape, Input(node, 1).elements);
    }
    if (node.op == "Tile") {
      return RepeatedShape(Input(node, 0).shape, Input(node, 1).elements);
    }
    if (node.op == "GatherElements") {
      return Input(node, 1).shape;
    }
    if (node.op == "Concat") {
      return JoinedShape(node);
    }
    if (node.op == "Slice") {
      return SlicedShape(node);
    }
    if (node.op == "Range") {
      return CountedShape(node);
    }
    if (node.op == "Convolution" || node.op == "GroupConvolution" || node.op == "AvgPool" ||
        node.op == "MaxPool") {
      return WindowedShape(node);
    }
    if (node.op == "SoftMax" || node.op == "LogSoftmax" || node.op == "CumSum" ||
        node.op == "ScatterNDUpdate" || node.op == "ScatterElementsUpdate") {
      return Input(node, 0).shape;
    }
    return std::nullopt;
  }

  // Of sliding windows: rows [N, channels, spatial axes..]. Extents that are not known get new
  // symbols.
  std::optional<std::vector<Extent>> WindowedShape(const Node& node) {
    const auto& data = Input(node, 0).shape;
    const absl::StatusOr<WindowOptions> options = ParseWindows(node);
    const absl::StatusOr<std::vector<int64_t>> pool = node.attributes.Ints("kernel", {});
    const size_t rank = data.has_value() ? data->size() : 0;
    if (rank < 3 || !options.ok() || !pool.ok() ||
        !CheckWindowRank(*options, static_cast<int>(rank) - 2).ok() ||
        options->auto_pad != WindowOptions::AutoPad::kExplicit ||
        options->rounding != WindowOptions::Rounding::kFloor) {
      return std::nullopt;
    }
    const bool is_pool = node.op == "MaxPool" || node.op == "AvgPool";
    std::vector<Extent> kernel;
    for (const int64_t extent : *pool) {
      kernel.push_back(Extent{extent, {}});
    }
    if (!is_pool) {
      kernel = Input(node, 1).shape.value_or(std::vector<Extent>());
    }
    const size_t front = is_pool ? 0 : kernel.size() - std::min(kernel.size(), rank - 2);
    if (kernel.size() != front + rank - 2) {
      return std::nullopt;
    }
    std::vector<Extent> shape = {(*data)[0], is_pool ? (*data)[1] : symbols_.New()};
    for (size_t axis = 2; axis < rank; ++axis) {
      shape.push_back(WindowsOn((*data)[axis], kernel[front + axis - 2], *options, axis - 2)
                          .value_or(symbols_.New()));
    }
    return shape;
  }

  // floor((extent + padding - dilation * (kernel - 1) - 1) / stride) + 1, if that is 0 or more.
  std::optional<Extent> WindowsOn(const Extent& extent, const Extent& kernel,
                                  const WindowOptions& options, size_t axis) {
    const auto entry = [axis](const Ints& list, int64_t fallback) {
      return list.empty() ? fallback : list[axis];
    };
    if (!kernel.is_number() || kernel.number <= 0 || kernel.number >= int64_t{1} << 31) {
      return std::nullopt;
    }
    const int64_t stride = entry(options.strides, 1);
    const int64_t added = entry(options.pads_begin, 0) + entry(options.pads_end, 0) -
                          entry(options.dilations, 1) * (kernel.number - 1) - 1 + stride;
    const std::optional<Extent> padded = symbols_.Sum(extent, Extent{added, {}});
    const std::optional<Extent> count =
        padded.has_value() ? symbols_.Floor(*padded, stride) : std::nullopt;
    return count.has_value() && count->is_extent() ? count : std::nullopt;
  }

  // The shape of data repeated along each axis; shapes as NumPy aligns them.
  static std::optional<std::vector<Extent>> RepeatedShape(
      const std::optional<std::vector<Extent>>& data,
      const std::optional<std::vector<Extent>>& repeats) {
    if (!data.has_value() || !repeats.has_value()) {
      return std::nullopt;
    }
    const size_t rank = std::max(data->size(), repeats->size());
    std::vector<Extent> repeated;
    for (size_t axis = 0; axis < rank; ++axis) {
      const std::optional<Extent> extent =
          Product(AlignedAt(*data, rank, axis), AlignedAt(*repeats, rank, axis));
      if (!extent.has_value() || !extent->is_extent()) {
        return std::nullopt;
      }
      repeated.push_back(*extent);
    }
    return repeated;
  }

  // The only element of an input; nothing if it is not known, or there are several.
  std::optional<Extent> Single(const Node& node, size_t port) const {
    const auto& value = Input(node, port).elements;
    return value.has_value() && value->size() == 1 ? std::optional(value->front()) : std::nullopt;
  }

  // Of n, n + 1, .. m - 1, where m is at least n: [m - n].
  std::optional<std::vector<Extent>> CountedShape(const Node& node) {
    const std::optional<Extent> start = Single(node, 0);
    const std::optional<Extent> stop = Single(node, 1);
    if (!start.has_value() || !stop.has_value() || Single(node, 2) != Extent{} ||
        !symbols_.AtMost(*start, *stop)) {
      return std::nullopt;
    }
    const std::optional<Extent> count = symbols_.Difference(*stop, *start);
    return count.has_value() ? std::optional(std::vector<Extent>{*count}) : std::nullopt;
  }

  // The sum on the axis along which values are joined; on the others they agree.
  std::optional<std::vector<Extent>> JoinedShape(const Node& node) {
    std::optional<std::vector<Extent>> joined = Input(node, 0).shape;
    const int64_t given = node.attributes.Int("axis", 0).value_or(0);
    const std::optional<size_t> axis =
        joined.has_value() ? AxisOf(given, joined->size()) : std::nullopt;
    for (size_t port = 1; axis.has_value() && port < node.inputs.size(); ++port) {
      const auto& shape = Input(node, port).shape;
      if (!shape.has_value() || shape->size() != joined->size()) {
        return std::nullopt;
      }
      const std::optional<Extent> sum = symbols_.Sum((*joined)[*axis], (*shape)[*axis]);
      if (!sum.has_value()) {
        return std::nullopt;
      }
      (*joined)[*axis] = *sum;
    }
    return axis.has_value() ? joined : std::nullopt;
  }

  // Where a Slice of step 1 begins or ends on an axis of this extent.
  std::optional<Extent> PlaceOn(const Extent& extent, const Extent& given) {
    constexpr int64_t kEnd = 1 << 30;  // and more: as far as there is anything
    if (given.is_number() && (given.number >= kEnd || given.number <= -kEnd)) {
      return given.number > 0 ? extent : Extent{0, {}};
    }
    const std::optional<Extent> place =
        given.is_number() && given.number < 0 ? symbols_.Sum(extent, given) : std::optional(given);
    return place.has_value() && symbols_.AtMost(Extent{0, {}}, *place) &&
                   symbols_.AtMost(*place, extent)
               ? place
               : std::nullopt;
  }

  // Extents that are not known get new symbols.
  std::optional<std::vector<Extent>> SlicedShape(const Node& node) {
    std::optional<std::vector<Extent>> shape = Input(node, 0).shape;
    const auto& starts = Input(node, 1).elements;
    const auto& stops = Input(node, 2).elements;
    const auto& steps = Input(node, 3).elements;
    const auto& axes = Input(node, 4).elements;
    const bool known =
        shape.has_value() && starts.has_value() && stops.has_value() && steps.has_value() &&
        stops->size() == starts->size() && steps->size() == starts->size() &&
        (node.inputs.size() < 5 || (axes.has_value() && axes->size() == starts->size()));
    for (size_t i = 0; known && i < starts->size(); ++i) {
      const Extent stated =
          node.inputs.size() < 5 ? Extent{static_cast<int64_t>(i), {}} : (*axes)[i];
      const std::optional<size_t> axis =
          stated.is_number() ? AxisOf(stated.number, shape->size()) : std::nullopt;
      if (!axis.has_value()) {
        return std::nullopt;
      }
      Extent& extent = (*shape)[*axis];
      const std::optional<Extent> start = PlaceOn(extent, (*starts)[i]);
      const std::optional<Extent> stop = PlaceOn(extent, (*stops)[i]);
      const bool is_plain = start.has_value() && stop.has_value() && (*steps)[i] == Extent{} &&
                            symbols_.AtMost(*start, *stop);
      const std::optional<Extent> count =
          is_plain ? symbols_.Difference(*stop, *start) : std::nullopt;
      extent = count.has_value() ? *count : symbols_.New();
    }
    return known ? shape : std::nullopt;
  }

  // Whether input 0 is [1, 1, ..], at most `rank` ones.
  bool IsOneElement(const Node& node, size_t rank) const {
    const auto& data = Input(node, 0).shape;
    return data.has_value() && data->size() <= rank &&
           std::all_of(data->begin(), data->end(),
                       [](const Extent& extent) { return extent == Extent{}; });
  }

  // The target of a Broadcast is its shape: always in mode numpy, and for one element.
  bool IsNumpyBroadcast(const Node& node) const {
    const std::string mode = node.attributes.String("mode", "numpy").value_or("");
    return mode == "numpy" || (mode == "bidirectional" && IsOneElement(node, 1));
  }

  static bool IsBidirectional(const Node& node) {
    return node.attributes.String("mode", "numpy").value_or("") == "bidirectional";
  }

  // The shape of data [..] that NumPy broadcasts with a target; nothing if an extent can be either.
  static std::optional<std::vector<Extent>> WidenedTo(
      const std::optional<std::vector<Extent>>& data,
      const std::optional<std::vector<Extent>>& target) {
    if (!data.has_value() || !target.has_value()) {
      return std::nullopt;
    }
    const size_t rank = std::max(data->size(), target->size());
    std::vector<Extent> widened;
    for (size_t axis = 0; axis < rank; ++axis) {
      const Extent from = AlignedAt(*data, rank, axis);
      const Extent to = AlignedAt(*target, rank, axis);
      if (!to.is_extent() || (from != to && from != Extent{} && to != Extent{})) {
        return std::nullopt;
      }
      widened.push_back(from == Extent{} ? to : from);
    }
    return widened;
  }

  // Nodes that one output follows from by the operator alone.
  static bool MayKnowMore(const Node& node) {
    return node.op != "Parameter" && node.op != "Constant" && node.op != "Result" &&
           node.loop == nullptr && node.branches == nullptr && node.outputs.size() == 1;
  }

  // The output's shape as the operator infers it from what extents know of the inputs. So a deep
  // graph whose shapes hang on each other layer by layer is known in one sweep.
  PartialShape InferredAgain(const Node& node, const KnownInputs& inputs) const {
    const PartialShape& shape = node.outputs[0].shape;
    const absl::StatusOr<std::vector<ValueInfo>> again =
        InferNodeOutputs(node, inputs.infos(), operators_);
    return again.ok() && again->front().shape.has_rank() ? again->front().shape : shape;
  }

  // Fills in what is not known yet: numbers that inference found, symbols that operators hand on,
  // and new symbols.
  void Complete(int index, size_t output, ValueExtents& value) {
    const Node& node = graph_.node(index);
    const ValueInfo& info = node.outputs[output];
    const Tensor& known = info_.constants[static_cast<size_t>(index)][output];
    const KnownInputs inputs(graph_, node, found_, info_);
    const bool is_news = !known.has_value() && inputs.is_news() && MayKnowMore(node);
    // 2.
    std::optional<std::vector<Extent>> shape =
        Declared(is_news ? InferredAgain(node, inputs) : info.shape, symbols_);
    if (shape.has_value() && value.shape.has_value() && shape->size() == value.shape->size()) {
      for (size_t axis = 0; axis < shape->size(); ++axis) {
        if (!(*shape)[axis].is_number()) {
          (*shape)[axis] = (*value.shape)[axis];
        }
      }
    } else if (!shape.has_value()) {
      shape = value.shape;
    } else if (node.op != "Parameter") {
      // 3.
      HandOn(node, inputs.infos(), *shape);
    }
    value.shape = std::move(shape);
    // 4.
    const Tensor computed = is_news ? inputs.Compute(operators_, value) : known;
    if (computed.has_value()) {
      FindKnown(computed, value);
    } else if (node.op != "Loop" && node.op != "Parameter" && node.outputs.size() == 1) {
      FindElements(node, found_, info_, operators_, symbols_, value);
    }
    if (IsShortList(info.dtype, value) && !value.elements.has_value()) {
      value.elements.emplace();
      const size_t count =
          value.shape->empty() ? 1 : static_cast<size_t>(value.shape->front().number);
      for (size_t i = 0; i < count; ++i) {
        value.elements->push_back(symbols_.NewInteger());
      }
    }
    if (value.elements.has_value() && value.elements->size() == 1) {
      value.all = value.elements->front();
    }
    // 5.
    if (node.op != "Parameter" && node.outputs.size() == 1 && node.loop == nullptr &&
        node.branches == nullptr) {
      FindFill(node, computed, found_, operators_, symbols_, value);
    }
  }

  // Replaces extents of `shape`, an output of `node`, by what they are of its inputs' symbols.
  void HandOn(const Node& node, absl::Span<const InputInfo> inputs, std::vector<Extent>& shape) {
    const Operator* op = operators_.Find(node.op);
    if (op == nullptr || op->rows == nullptr) {
      return;
    }
    std::vector<std::vector<int>> tried;
    for (const ValueId id : node.inputs) {
      if (!id.present() || !found_.of(id).shape.has_value()) {
        continue;
      }
      for (const Extent& extent : *found_.of(id).shape) {
        if (!extent.is_number() && tried.size() < kMostSymbols &&
            std::find(tried.begin(), tried.end(), extent.symbols) == tried.end()) {
          tried.push_back(extent.symbols);
          HandOnSymbols(node, inputs, *op, extent.symbols, shape);
        }
      }
    }
  }

  // Hands on one product of symbols, as if it were the number of rows. What else there is of shapes
  // stands as it is: a rule holds for whatever the number of rows may be besides. So where the
  // symbols stand on several axes (queries and keys of attention over itself), each of an input may
  // be taken for rows, and the others, or all of that input, for extents of which nothing is known.
  void HandOnSymbols(const Node& node, absl::Span<const InputInfo> inputs, const Operator& op,
                     const std::vector<int>& symbols, std::vector<Extent>& shape) {
    std::vector<std::vector<RowInfo>> places;  // by input: what it may be taken for
    size_t choices = 1;
    for (const ValueId id : node.inputs) {
      std::vector<RowInfo>& mine = places.emplace_back();
      const auto& dims = id.present() ? found_.of(id).shape : std::nullopt;
      for (size_t axis = 0; dims.has_value() && axis < dims->size(); ++axis) {
        if ((*dims)[axis].symbols == symbols) {
          mine.push_back({Kind::kRows, static_cast<int>(axis), (*dims)[axis].number});
        }
      }
      mine.push_back({Kind::kFixed});
      choices = std::min(choices * mine.size(), kMostChoices + 1);
    }
    choices = choices > kMostChoices ? 1 : choices;
    for (size_t choice = 0; choice < choices; ++choice) {
      std::vector<RowInfo> rows;
      size_t left = choice;
      for (const std::vector<RowInfo>& mine : places) {
        rows.push_back(mine[left % mine.size()]);
        left /= mine.size();
      }
      const RowInfo result = op.rows(node, rows, inputs);
      if (result.kind == Kind::kRows && static_cast<size_t>(result.axis) < shape.size() &&
          !shape[static_cast<size_t>(result.axis)].is_number()) {
        shape[static_cast<size_t>(result.axis)] = Extent{result.factor, symbols};
      }
    }
  }

  // Whether an iteration whose states have the shapes that were assumed hands on states of these
  // shapes: then all iterations do.
  bool StatesKeepShapes(int index, const std::vector<ValueExtents>& assumed) const {
    const Loop& loop = *graph_.node(index).loop;
    const Extents& body = *found_.bodies_[static_cast<size_t>(index)];
    return std::all_of(loop.inputs.begin(), loop.inputs.end(), [&](const LoopInput& rule) {
      if (rule.kind != LoopInput::Kind::kCarried) {
        return true;
      }
      const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(rule.back_edge)]);
      const auto& shape = assumed[static_cast<size_t>(rule.body_parameter)].shape;
      return shape.has_value() && body.of(result.inputs[0]).shape == shape;
    });
  }

  // What a loop's body sees of its inputs, and what its outputs are. Symbols that the body made
  // hold for one iteration; none of them leaves it.
  //
  // 1. Each input becomes a Parameter of the body: sliced along an axis, whose extent is the number
  //    of iterations if every element is taken, or as it is. A state is assumed to keep its shape.
  // 2. The body is swept. If a state turns out to change its shape, it is swept again without what
  //    was assumed.
  // 3. Each result becomes an output: the last value, or parts joined along an axis.
  void FollowLoop(int index, std::vector<ValueExtents>& outputs) {
    const Node& node = graph_.node(index);
    const Loop& loop = *node.loop;
    if (loop.items == Loop::Items::kApart || info_.bodies[static_cast<size_t>(index)].empty()) {
      return;
    }
    std::vector<ValueExtents> parameters(loop.body.parameters.size());
    std::optional<Extent> count;
    // 1.
    for (const LoopInput& rule : loop.inputs) {
      if (rule.input < 0) {
        continue;
      }
      const ValueExtents& outside = Input(node, static_cast<size_t>(rule.input));
      ValueExtents& inside = parameters[static_cast<size_t>(rule.body_parameter)];
      if (rule.kind == LoopInput::Kind::kInvariant) {
        inside = outside;
      } else if (rule.kind == LoopInput::Kind::kCarried) {
        inside.shape = outside.shape;  // if they keep it: below
      } else if (outside.shape.has_value()) {
        const std::optional<size_t> axis = AxisOf(rule.axis, outside.shape->size());
        if (!axis.has_value()) {
          continue;
        }
        inside.shape = outside.shape;
        if (TakesEveryElement(rule)) {
          count = (*outside.shape)[*axis];
        }
        if (rule.drop_axis) {
          inside.shape->erase(inside.shape->begin() + static_cast<int64_t>(*axis));
        } else {
          (*inside.shape)[*axis] = Extent{rule.part_size, {}};
        }
      }
    }
    const bool counted = loop.trip_count_input < 0 && loop.condition_input < 0 &&
                         loop.condition_result < 0 && count.has_value();
    // 2.
    const int before = symbols_.num_extents();
    const auto follow = [&] {
      found_.bodies_[static_cast<size_t>(index)] = std::make_unique<Extents>(
          Extents::Find(loop.body, *info_.bodies[static_cast<size_t>(index)][0], operators_,
                        symbols_, parameters));
    };
    follow();
    if (loop.states_may_change_shape && !StatesKeepShapes(index, parameters)) {
      for (const LoopInput& rule : loop.inputs) {
        if (rule.kind == LoopInput::Kind::kCarried) {
          parameters[static_cast<size_t>(rule.body_parameter)].shape = std::nullopt;
        }
      }
      follow();
    }
    // 3.
    for (const LoopOutput& rule : loop.outputs) {
      const Node& result = loop.body.node(loop.body.results[static_cast<size_t>(rule.body_result)]);
      std::optional<std::vector<Extent>> shape =
          found_.bodies_[static_cast<size_t>(index)]->of(result.inputs[0]).shape;
      if (!shape.has_value()) {
        continue;
      }
      for (Extent& extent : *shape) {
        if (!extent.symbols.empty() && extent.symbols.back() >= before) {
          extent = symbols_.New();
        }
      }
      if (rule.kind != LoopOutput::Kind::kLastValue) {
        const bool stacked = rule.kind == LoopOutput::Kind::kStacked || shape->empty();
        const std::optional<size_t> axis = AxisOf(rule.axis, shape->size() + (stacked ? 1 : 0));
        if (!axis.has_value()) {
          continue;
        }
        if (stacked) {
          shape->insert(shape->begin() + static_cast<int64_t>(*axis), Extent{});
        }
        Extent& joined = (*shape)[*axis];
        const std::optional<Extent> all =
            counted && joined.is_number() ? Product(*count, joined) : std::nullopt;
        joined = all.value_or(symbols_.New());
      }
      outputs[static_cast<size_t>(rule.output)].shape = std::move(shape);
    }
  }

  const Graph& graph_;
  const GraphInfo& info_;
  const OperatorSet& operators_;
  Symbols& symbols_;
  Extents found_;
};

const ValueExtents& Extents::of_input(const Node& node, size_t port) const {
  static const ValueExtents absent;
  return port < node.inputs.size() && node.inputs[port].present() ? of(node.inputs[port]) : absent;
}

Extents Extents::Find(const Graph& graph, const GraphInfo& info, const OperatorSet& operators,
                      Symbols& symbols, const std::vector<ValueExtents>& parameters) {
  return ExtentsFinder(graph, info, operators, symbols).Run(parameters);
}

std::vector<ValueExtents> ParametersWithRows(const Graph& graph, const std::vector<int>& row_axes,
                                             const Extent& rows, Symbols& symbols) {
  std::vector<ValueExtents> parameters(graph.parameters.size());
  std::map<int64_t, Extent> shared;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int axis = row_axes[i];
    auto& shape = parameters[i].shape;
    const Node& node = graph.node(graph.parameters[i]);
    shape = Declared(node.outputs[0].shape, symbols);
    const auto shares = node.attributes.Ints(kSharedExtent, {}).value_or(std::vector<int64_t>());
    if (shares.size() == 2 && shape.has_value() && static_cast<size_t>(shares[0]) < shape->size()) {
      Extent& extent = (*shape)[static_cast<size_t>(shares[0])];
      extent = extent.is_number() ? extent : shared.try_emplace(shares[1], extent).first->second;
    }
    if (axis >= 0 && shape.has_value() && static_cast<size_t>(axis) < shape->size() &&
        !(*shape)[static_cast<size_t>(axis)].is_number()) {
      (*shape)[static_cast<size_t>(axis)] = rows;
    }
  }
  return parameters;
}

}  // namespace beamwright::ops
