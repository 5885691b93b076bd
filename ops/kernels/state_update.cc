// How a matrix state is updated in one pass. For a row and a head the state is a matrix S of keys
// and values, in memory as [values, keys] (keys_last) or [keys, values]. Each value's part of S,
// one key vector, depends on no other value:
//
//   known = S_v . erase or S_v . key     rules "delta" and "pair" alone: what S already holds
//   added = value, or rate * (value - known)
//   S_v   = S_v * decay + (write * known) + key * added
//   read  = S_v . query
//
// 1. UpdateLines, for [values, keys]: S_v is a line. Sums along it are kept in 16 lanes, and added
//    at its end (AddLanes).
// 2. UpdateColumns, for [keys, values]: S_v is a column. UpdateBlock takes 64 or 16 columns
//    together, a vector of 16 in one register, and walks down the keys; UpdateColumn takes a single
//    column in the same order.
// 3. Update chooses the function for the rule and for whether decay differs along a line, so that
//    inner loops have no branch.
// 4. StateUpdateKernel finds the operands of each row and head (Operand, Head) and shares heads and
//    stretches of values among threads. With RowFamilies, rows read the state of their parent
//    without a copy; with pages, states of different rows are anywhere in memory; with last_rows, a
//    row takes several steps one after the other.
//
// A value's sums have the same order whichever thread or block has it, so that bits do not depend
// on the batch.
//
// Shapes: a state [rows, heads, m, n], with m and n keys and values in either order; keys, queries,
// erase and write a vector of keys for each row and head, values and rates one of values, decay a
// number, a vector or a matrix for each. `read` is [rows, heads, values]. For a state of 64 keys
// and 128 values in f32 a head has 32 KiB, which is read and written once.
#include "ops/kernels/state_update.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ops/base/step_profile.h"
#include "ops/base/vector_isa.h"
#include "ops/graph/operator.h"
#include "ops/kernels/inputs.h"
#include "ops/kernels/math.h"
#include "ops/kernels/parallel.h"

namespace beamwright::ops {
namespace {

enum class Rule { kSum, kDelta, kPair };

struct Options {
  Rule rule = Rule::kSum;
  bool keys_last = false;
};

constexpr std::array<absl::string_view, kNumUpdateInputs> kNames = {
    "state", "decay", "key", "value", "query", "erase", "write", "rate"};

// Sixteen floats. Values of this type are never passed to a function: how they would be passed
// depends on the instructions that a file is compiled for.
using Lanes = float __attribute__((vector_size(64)));
static_assert(sizeof(Lanes) == kLanes * sizeof(float));

// Sixteen floats at any place in memory: the members of a packed struct have no alignment.
struct __attribute__((packed, may_alias)) Place {
  Lanes lanes;
};

BW_ALWAYS_INLINE inline const Place& At(const float* p) {
  return *reinterpret_cast<const Place*>(p);
}
BW_ALWAYS_INLINE inline Place& At(float* p) { return *reinterpret_cast<Place*>(p); }

// The state of one row and head, a matrix [m, n], and pointers to its operands; null: absent.
struct Head {
  const float* state = nullptr;
  float* next = nullptr;  // may be `state`
  int64_t m = 0;
  int64_t n = 0;
  const float* decay = nullptr;
  int64_t decay_m = 0;  // strides
  int64_t decay_n = 0;
  const float* key = nullptr;
  const float* value = nullptr;
  const float* query = nullptr;
  const float* erase = nullptr;
  const float* write = nullptr;
  const float* rate = nullptr;
  int64_t rate_stride = 0;
  float* read = nullptr;
};

constexpr float kOne = 1;

// The factor of the key that is added for value i; known: what the state already has of it.
BW_ALWAYS_INLINE inline float Added(const Head& head, int64_t i, float known) {
  const float rate = head.rate == nullptr ? 1.0f : head.rate[i * head.rate_stride];
  return (head.value[i] - known) * rate;
}

// State [values, keys]: values [first, last). No line depends on another.
template <Rule kRule, bool kDecays>
BW_ALWAYS_INLINE inline void UpdateLines(const Head& head, int64_t first, int64_t last) {
  const int64_t n = head.n;
  const int64_t whole = n / kLanes * kLanes;
  const float* const query = head.query == nullptr ? head.key : head.query;
  const float* const by = kRule == Rule::kPair ? head.erase : head.key;
  for (int64_t i = first; i < last; ++i) {
    const float* const s = head.state + i * n;
    float* const out = head.next + i * n;
    const float* const decay = head.decay == nullptr ? &kOne : head.decay + i * head.decay_m;
    const float factor = *decay;
    // 1. The first pass over the line: what the state already holds for the key.
    float known = 0;
    if constexpr (kRule != Rule::kSum) {
      float sums[kLanes] = {};
      Lanes sum = {};
      for (int64_t j = 0; j < whole; j += kLanes) {
        if constexpr (kRule == Rule::kPair) {
          sum += At(s + j).lanes * At(by + j).lanes;
        } else if constexpr (kDecays) {
          sum += (At(s + j).lanes * At(decay + j).lanes) * At(by + j).lanes;
        } else {
          sum += (At(s + j).lanes * factor) * At(by + j).lanes;
        }
      }
      At(sums).lanes = sum;
      for (int64_t j = whole; j < n; ++j) {
        const float old = kRule == Rule::kPair ? s[j] : s[j] * (kDecays ? decay[j] : factor);
        sums[j - whole] += old * by[j];
      }
      known = AddLanes(sums);
    }
    const float added = kRule == Rule::kDelta ? Added(head, i, known) : head.value[i];
    // 2. The second pass: the next state, and its product with the query.
    Lanes sum = {};
    for (int64_t j = 0; j < whole; j += kLanes) {
      Lanes x = At(s + j).lanes;
      if constexpr (kDecays) {
        x *= At(decay + j).lanes;
      } else {
        x *= factor;
      }
      if constexpr (kRule == Rule::kPair) {
        x += At(head.write + j).lanes * known;
      }
      x += At(head.key + j).lanes * added;
      At(out + j).lanes = x;
      sum += x * At(query + j).lanes;
    }
    float sums[kLanes];
    At(sums).lanes = sum;
    for (int64_t j = whole; j < n; ++j) {
      float x = s[j] * (kDecays ? decay[j] : factor);
      if constexpr (kRule == Rule::kPair) {
        x += head.write[j] * known;
      }
      x += head.key[j] * added;
      out[j] = x;
      sums[j - whole] += x * query[j];
    }
    if (head.query != nullptr) {
      head.read[i] = AddLanes(sums);
    }
  }
}

constexpr int kColumnVectors = 4;  // whose sums fit in registers with all else

// State [keys, values]: kVectors * 16 values from `first` on.
template <Rule kRule, bool kDecays, int kVectors>
BW_ALWAYS_INLINE inline void UpdateBlock(const Head& head, int64_t first) {
  const float* const query = head.query == nullptr ? head.key : head.query;
  const float* const by = kRule == Rule::kPair ? head.erase : head.key;
  const float* const decay = head.decay == nullptr ? &kOne : head.decay + first * head.decay_n;
  // 1. The first pass down the keys.
  Lanes known[kVectors] = {};
  if constexpr (kRule != Rule::kSum) {
    for (int64_t i = 0; i < head.m; ++i) {
      const float* const s = head.state + i * head.n + first;
      const float* const d = decay + i * head.decay_m;
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kRule == Rule::kPair) {
          known[v] += At(s + v * kLanes).lanes * by[i];
        } else if constexpr (kDecays) {
          known[v] += (At(s + v * kLanes).lanes * At(d + v * kLanes).lanes) * by[i];
        } else {
          known[v] += (At(s + v * kLanes).lanes * *d) * by[i];
        }
      }
    }
  }
  // 2. What is added for each value.
  Lanes added[kVectors];
  Lanes sum[kVectors] = {};
  for (int v = 0; v < kVectors; ++v) {
    added[v] = At(head.value + first + v * kLanes).lanes;
    if constexpr (kRule == Rule::kDelta) {
      added[v] -= known[v];
      if (head.rate != nullptr && head.rate_stride == 0) {
        added[v] *= *head.rate;
      } else if (head.rate != nullptr) {
        added[v] *= At(head.rate + first + v * kLanes).lanes;
      }
    }
  }
  // 3. The second pass: the next state, and its product with the query.
  for (int64_t i = 0; i < head.m; ++i) {
    const float* const s = head.state + i * head.n + first;
    float* const out = head.next + i * head.n + first;
    const float* const d = decay + i * head.decay_m;
    for (int v = 0; v < kVectors; ++v) {
      Lanes x = At(s + v * kLanes).lanes;
      if constexpr (kDecays) {
        x *= At(d + v * kLanes).lanes;
      } else {
        x *= *d;
      }
      if constexpr (kRule == Rule::kPair) {
        x += known[v] * head.write[i];
      }
      x += added[v] * head.key[i];
      At(out + v * kLanes).lanes = x;
      sum[v] += x * query[i];
    }
  }
  for (int v = 0; v < kVectors && head.query != nullptr; ++v) {
    At(head.read + first + v * kLanes).lanes = sum[v];
  }
}

// One value: a column, with sums in the order of UpdateBlock.
template <Rule kRule>
BW_ALWAYS_INLINE inline void UpdateColumn(const Head& head, int64_t j) {
  const auto decay = [&](int64_t i) BW_ALWAYS_INLINE {
    return head.decay == nullptr ? 1.0f : head.decay[i * head.decay_m + j * head.decay_n];
  };
  float known = 0;
  for (int64_t i = 0; kRule != Rule::kSum && i < head.m; ++i) {
    const float old = head.state[i * head.n + j];
    known += kRule == Rule::kPair ? old * head.erase[i] : (old * decay(i)) * head.key[i];
  }
  const float added = kRule == Rule::kDelta ? Added(head, j, known) : head.value[j];
  float sum = 0;
  for (int64_t i = 0; i < head.m; ++i) {
    float x = head.state[i * head.n + j] * decay(i);
    if constexpr (kRule == Rule::kPair) {
      x += known * head.write[i];
    }
    x += added * head.key[i];
    head.next[i * head.n + j] = x;
    sum += head.query == nullptr ? 0.0f : x * head.query[i];
  }
  if (head.query != nullptr) {
    head.read[j] = sum;
  }
}

// State [keys, values]: values [first, last).
template <Rule kRule, bool kDecays>
BW_ALWAYS_INLINE inline void UpdateColumns(const Head& head, int64_t first, int64_t last) {
  int64_t j = first;
  for (; j + kColumnVectors * kLanes <= last; j += kColumnVectors * kLanes) {
    UpdateBlock<kRule, kDecays, kColumnVectors>(head, j);
  }
  for (; j + kLanes <= last; j += kLanes) {
    UpdateBlock<kRule, kDecays, 1>(head, j);
  }
  for (; j < last; ++j) {
    UpdateColumn<kRule>(head, j);
  }
}

template <Rule kRule, bool kDecays>
void UpdateAs(const Head& head, bool keys_last, int64_t first, int64_t last) {
  Vectorized([&]() BW_ALWAYS_INLINE {
    if (keys_last) {
      UpdateLines<kRule, kDecays>(head, first, last);
    } else {
      UpdateColumns<kRule, kDecays>(head, first, last);
    }
  });
}

// Values [first, last) of a head.
//
// A decay that is the same along a line (one number, or one for each line) is a factor in a
// register; only one that differs within the line is read next to the state.
void Update(const Options& options, const Head& head, int64_t first, int64_t last) {
  const bool decays = head.decay != nullptr && head.decay_n != 0;
  const auto run = [&](auto sum, auto delta, auto pair) {
    switch (options.rule) {
      case Rule::kSum:
        return sum(head, options.keys_last, first, last);
      case Rule::kDelta:
        return delta(head, options.keys_last, first, last);
      case Rule::kPair:
        return pair(head, options.keys_last, first, last);
    }
  };
  if (decays) {
    run(&UpdateAs<Rule::kSum, true>, &UpdateAs<Rule::kDelta, true>, &UpdateAs<Rule::kPair, true>);
  } else {
    run(&UpdateAs<Rule::kSum, false>, &UpdateAs<Rule::kDelta, false>,
        &UpdateAs<Rule::kPair, false>);
  }
}

absl::StatusOr<Options> Parse(const Node& node) {
  Options options;
  BW_ASSIGN_OR_RETURN(const std::string rule, node.attributes.String("rule", "sum"));
  BW_ASSIGN_OR_RETURN(options.keys_last, node.attributes.Bool("keys_last", false));
  if (rule != "sum" && rule != "delta" && rule != "pair") {
    return Invalid("attribute 'rule' is '", rule, "'; it must be sum, delta or pair");
  }
  options.rule = rule == "sum" ? Rule::kSum : rule == "delta" ? Rule::kDelta : Rule::kPair;
  return options;
}

bool MayBe(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }

// Whether the axes in front of an operand's last two broadcast to the state's, as far as is known.
bool LeadsFit(const Shape& state, const Shape& operand) {
  if (operand.size() > state.size() || operand.size() < 2) {
    return false;
  }
  const size_t missing = state.size() - operand.size();
  for (size_t axis = 0; axis + 2 < operand.size(); ++axis) {
    const int64_t extent = operand[axis];
    const int64_t own = state[axis + missing];
    if (extent != 1 && !MayBe(extent, own)) {
      return false;
    }
  }
  return true;
}

// Whether an input's last two axes are `width` elements in a line.
bool IsVector(const Shape& shape, int64_t width) {
  const int64_t a = shape[shape.size() - 2];
  const int64_t b = shape.back();
  return (MayBe(a, width) && MayBe(b, 1)) || (MayBe(a, 1) && MayBe(b, width));
}

absl::Status CheckOperand(const Options& options, size_t index, const InputInfo& input,
                          const Shape& state) {
  BW_RETURN_IF_ERROR(ExpectType(input, kNames[index], {DType::kF32}));
  if (!input.shape.has_rank()) {
    return absl::OkStatus();
  }
  const Shape& shape = input.shape.dims();
  const int64_t m = state[state.size() - 2];
  const int64_t n = state.back();
  const int64_t keys = options.keys_last ? n : m;
  const int64_t values = options.keys_last ? m : n;
  bool fits = LeadsFit(state, shape);
  if (fits && index == kUpdateDecay) {
    const int64_t a = shape[shape.size() - 2];
    fits = (a == 1 || MayBe(a, m)) && (shape.back() == 1 || MayBe(shape.back(), n));
  } else if (fits) {
    const bool is_value = index == kUpdateValue || index == kUpdateRate;
    fits =
        IsVector(shape, is_value ? values : keys) || (index == kUpdateRate && IsVector(shape, 1));
  }
  return fits ? absl::OkStatus()
              : Invalid(kNames[index], ": shape ", input.shape.ToString(),
                        " does not go with state ", ToString(state));
}

absl::Status Shapes(const Options& options, absl::Span<const InputInfo> inputs,
                    absl::Span<ValueInfo> outputs) {
  const bool reads = Present(inputs, kUpdateQuery);
  BW_RETURN_IF_ERROR(ExpectCounts(inputs, 1, kNumUpdateInputs, outputs, reads ? 2 : 1));
  BW_RETURN_IF_ERROR(ExpectType(inputs[0], kNames[0], {DType::kF32}));
  const PartialShape& state = inputs[0].shape;
  if (state.has_rank() && (state.rank() < 3 || state.rank() > 4)) {
    return Invalid("state: shape ", state.ToString(), " must have rank 3 or 4");
  }
  for (size_t i = 1; i < kNumUpdateInputs; ++i) {
    const bool is_pair = options.rule == Rule::kPair && (i == kUpdateErase || i == kUpdateWrite);
    if (Present(inputs, i) && state.has_rank()) {
      BW_RETURN_IF_ERROR(CheckOperand(options, i, inputs[i], state.dims()));
    } else if (Present(inputs, i)) {
      BW_RETURN_IF_ERROR(ExpectType(inputs[i], kNames[i], {DType::kF32}));
    } else if (i == kUpdateKey || i == kUpdateValue || is_pair) {
      return Invalid(kNames[i], ": is missing");
    }
  }
  outputs[0].dtype = DType::kF32;
  outputs[0].shape = state;
  if (reads) {
    outputs[1].dtype = DType::kF32;
  }
  if (reads && state.has_rank()) {
    Shape read(state.dims().begin(), state.dims().end() - 2);
    read.push_back(options.keys_last ? state.dim(state.rank() - 2) : state.dims().back());
    outputs[1].shape = PartialShape(std::move(read));
  }
  return absl::OkStatus();
}

// Where an operand's part for a row and a head begins.
struct Operand {
  const float* data = nullptr;
  int64_t row = 0;  // strides
  int64_t head = 0;
  int64_t a = 1;  // extents of the last two axes
  int64_t b = 1;

  const float* Of(int64_t of_row, int64_t of_head) const {
    return data == nullptr ? nullptr : data + of_row * row + of_head * head;
  }
};

// Axes that an operand lacks, or whose extent is 1, have stride 0: every row or head reads the same
// part.
Operand OperandOf(const Tensor* tensor, int state_rank) {
  Operand operand;
  if (tensor == nullptr) {
    return operand;
  }
  const Shape& shape = tensor->shape();
  const int missing = state_rank - tensor->rank();
  operand.data = tensor->data<float>();
  operand.a = shape[shape.size() - 2];
  operand.b = shape.back();
  const int64_t size = operand.a * operand.b;
  const auto extent = [&](int axis) { return axis < missing ? 1 : tensor->dim(axis - missing); };
  const int64_t heads = state_rank == 4 ? extent(1) : 1;
  operand.head = heads == 1 ? 0 : size;
  operand.row = extent(0) == 1 ? 0 : size * heads;
  return operand;
}

class StateUpdateKernel final : public Kernel, public RowSourceKernel {
 public:
  explicit StateUpdateKernel(Options options) : options_(options) {}

  absl::Status Run(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                   absl::Span<Tensor> outputs) const override {
    return RunRows(context, inputs, {}, outputs);
  }

  int state_input() const override { return kUpdateState; }
  int table_input() const override { return -1; }
  int paged_output() const override { return 0; }

  absl::Status RunRows(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                       const RowSources& sources, absl::Span<Tensor> outputs) const override {
    const PhaseScope phase(context.profile, Phase::kGates);
    RuntimeInfos infos = DescribeInputs(inputs);
    RuntimeResults results(outputs.size());
    const RowFamilies* const families = sources.families;
    Shape shape = sources.pages == nullptr ? inputs[0]->shape() : sources.pages->row_shape;
    if (families != nullptr) {
      const int64_t held =
          sources.pages == nullptr ? shape[0] : static_cast<int64_t>(sources.pages->from.size());
      if (held != families->num_families()) {
        return Invalid("state: ", held, " rows for ", families->num_families(), " families");
      }
      shape[0] = sources.last_rows.empty() ? families->num_rows() : sources.last_rows.back() + 1;
      infos[0].dtype = DType::kF32;
      infos[0].shape = PartialShape(shape);
    }
    BW_RETURN_IF_ERROR(Shapes(options_, infos, absl::MakeSpan(results)));
    if (sources.pages != nullptr) {
      BW_RETURN_IF_ERROR(PrepareOutputs(absl::MakeSpan(results).subspan(1), outputs.subspan(1)));
    } else {
      BW_RETURN_IF_ERROR(PrepareOutputs(absl::MakeSpan(results), outputs));
    }
    UpdateRows(context, inputs, sources, shape, outputs);
    return absl::OkStatus();
  }

 private:
  // A task is a chunk of values of one head of a group: a family of rows, or a row where there are
  // no families. A chunk has 16,384 elements of the state or more, and a multiple of 64 values, so
  // that blocks of UpdateColumns are whole.
  //
  // The rows of a family are one task's, one after the other: all read one state, and the last may
  // write over it, which so has been read by then. With last_rows a row has several positions: the
  // first reads the family's state, each other one what the position before it wrote.
  void UpdateRows(const ExecutionContext& context, absl::Span<const Tensor* const> inputs,
                  const RowSources& sources, const Shape& shape, absl::Span<Tensor> outputs) const {
    constexpr int64_t kChunk = 16384;   // elements of a state that a thread takes at least
    constexpr int64_t kPerElement = 8;  // multiply-adds that one is worth: it comes from memory
    const auto rank = static_cast<int>(shape.size());
    std::array<Operand, kNumUpdateInputs> operands;
    for (size_t i = 1; i < kNumUpdateInputs; ++i) {
      operands[i] = OperandOf(InputOrNull(inputs, i), rank);
    }
    const int64_t m = shape[shape.size() - 2];
    const int64_t n = shape.back();
    const int64_t heads = rank == 4 ? shape[1] : 1;
    const int64_t values = options_.keys_last ? m : n;
    const int64_t keys = options_.keys_last ? n : m;
    const int64_t least = std::max<int64_t>(kChunk / std::max<int64_t>(keys, 1), 64) / 64 * 64;
    const int64_t chunks = (values + least - 1) / least;
    const RowFamilies* const families = sources.families;
    const int64_t groups = families == nullptr ? shape[0] : families->num_families();
    const float* const old = sources.pages == nullptr ? inputs[0]->data<float>() : nullptr;
    float* const next = sources.pages == nullptr ? outputs[0].mutable_data<float>() : nullptr;
    float* const read = outputs.size() > 1 ? outputs[1].mutable_data<float>() : nullptr;
    const auto update = [&](const float* from, float* to, int64_t row, int64_t at, int64_t chunk) {
      Head head;
      head.m = m;
      head.n = n;
      head.state = from + at * m * n;
      head.next = to + at * m * n;
      const Operand& decay = operands[kUpdateDecay];
      head.decay = decay.Of(row, at);
      head.decay_n = decay.b == 1 ? 0 : 1;
      head.decay_m = decay.a == 1 ? 0 : decay.b;
      head.key = operands[kUpdateKey].Of(row, at);
      head.value = operands[kUpdateValue].Of(row, at);
      head.query = operands[kUpdateQuery].Of(row, at);
      head.erase = operands[kUpdateErase].Of(row, at);
      head.write = operands[kUpdateWrite].Of(row, at);
      head.rate = operands[kUpdateRate].Of(row, at);
      head.rate_stride = operands[kUpdateRate].a * operands[kUpdateRate].b == 1 ? 0 : 1;
      head.read = read == nullptr ? nullptr : read + (row * heads + at) * values;
      Update(options_, head, chunk * least, std::min(values, (chunk + 1) * least));
    };
    ParallelFor(context.num_threads, groups * heads * chunks,
                kPerElement * shape[0] * heads * m * n, [&](int64_t task) {
                  const int64_t chunk = task % chunks;
                  const int64_t at = task / chunks % heads;
                  const int64_t group = task / chunks / heads;
                  const float* const from = old == nullptr
                                                ? sources.pages->from[static_cast<size_t>(group)]
                                                : old + group * heads * m * n;
                  if (families == nullptr) {
                    update(from, next + group * heads * m * n, group, at, chunk);
                    return;
                  }
                  // All rows of a family read one state; the last of them may overwrite it.
                  for (int i = families->first(group); i < families->first(group + 1); ++i) {
                    const auto row = static_cast<size_t>(families->rows()[static_cast<size_t>(i)]);
                    float* const to = next == nullptr
                                          ? sources.pages->to[row]
                                          : next + static_cast<int64_t>(row) * heads * m * n;
                    if (sources.last_rows.empty()) {
                      update(from, to, static_cast<int64_t>(row), at, chunk);
                      continue;
                    }
                    int64_t position = row == 0 ? 0 : sources.last_rows[row - 1] + 1;
                    update(from, to, position++, at, chunk);
                    for (; position <= sources.last_rows[row]; ++position) {
                      update(to, to, position, at, chunk);
                    }
                  }
                });
  }

  const Options options_;
};

absl::Status Infer(const Node& node, absl::Span<const InputInfo> inputs,
                   std::vector<ValueInfo>& outputs) {
  BW_ASSIGN_OR_RETURN(const Options options, Parse(node));
  return Shapes(options, inputs, absl::MakeSpan(outputs));
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const KernelRequest& request) {
  BW_ASSIGN_OR_RETURN(const Options options, Parse(request.node));
  return std::make_unique<StateUpdateKernel>(options);
}

// Rows on the first axis of the state; every other operand has them there too, or is the same for
// all of them.
RowInfo Rows(const Node&, absl::Span<const RowInfo> rows, absl::Span<const InputInfo> inputs) {
  if (const auto simple = RowsWithoutRows(rows); simple.has_value()) {
    return *simple;
  }
  if (!IsRows(rows[0]) || rows[0].axis != 0 || rows[0].factor != 1 || !inputs[0].shape.has_rank()) {
    return kMixedRows;
  }
  for (size_t i = 1; i < rows.size(); ++i) {
    if (!Present(inputs, i)) {
      continue;
    }
    const PartialShape& shape = inputs[i].shape;
    const bool is_whole = shape.has_rank() && shape.rank() == inputs[0].shape.rank();
    const bool fits =
        IsRows(rows[i]) ? is_whole && rows[i] == rows[0]
                        : IsFixed(rows[i]) && shape.has_rank() && (!is_whole || shape.dim(0) == 1);
    if (!fits) {
      return kMixedRows;
    }
  }
  return rows[0];
}

}  // namespace

constinit const OperatorCode kStateUpdate = {&Infer, &Make, &Rows};

}  // namespace beamwright::ops
