// ElementwiseChain: several functions of elements in one pass, so that what lies between them never
// leaves the caches next to the core. In no file: a graph's own nodes become chains when it is
// compiled (ops/passes/elementwise_fusion.cc). The functions are those of the operators with these
// names, and so are the bits.
//
// Its functions over a block of elements come first; a convolution's end has them, too.
#ifndef BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_CHAIN_H_
#define BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_CHAIN_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/kernels/operator_code.h"

namespace beamwright::ops {

// The functions of an ElementwiseChain, and of a convolution's end, over a block of elements: each
// a vectorised loop with the bits of the operator of that name.

// out[i] = f(a[i], b[i]) for i in [0, count); out overlaps neither. Functions of one operand do not
// read b, but Clamp, of which b is the two bounds.
using ElementApply = void (*)(const float* a, const float* b, int64_t count, float* out);

struct ElementFunction {
  absl::string_view op;
  int operands;  // 1 or 2
  ElementApply apply;
  // Of two operands: f(a[i], b[0]) and f(a[0], b[i]).
  ElementApply second_is_one = nullptr;
  ElementApply first_is_one = nullptr;
};

// Null: no chain has a function of this name.
const ElementFunction* FindElementFunction(absl::string_view op);

// values[i] = clamp(values[i] + bias, least, most): an Add and a Clamp, or a ReLU with the bounds 0
// and infinity, in one pass.
void AddAndClamp(float bias, float least, float most, int64_t count, float* values);

// Hard swish in one pass: with y = values[i] + bias it is y * clamp(y + shift, least, most),
// divided by `last` or multiplied with it.
struct HardSwish {
  float shift = 0;
  float least = 0;
  float most = 0;
  float last = 1;
  bool divides = false;
};
// biased: false leaves the bias out.
void ApplyHardSwish(const HardSwish& swish, bool biased, float bias, int64_t count, float* values);

inline constexpr char kElementwiseChainName[] = "ElementwiseChain";

// As many inputs and functions as a chain may have together.
inline constexpr size_t kMostChainValues = 24;

// Operands of an operator that can be part of a chain, 1 or 2; 0: it cannot. Of f32 alone.
int ChainOperands(absl::string_view op);

// What the attributes say (functions, operands, bounds, windows and results, as lists).
struct ChainOptions {
  static constexpr std::array<float, 2> kNoBounds = {-std::numeric_limits<float>::infinity(),
                                                     std::numeric_limits<float>::infinity()};
  struct Function {
    std::string op;
    // Numbers of values: inputs first, then what functions gave, in order. second -1: none.
    int64_t first = 0;
    int64_t second = -1;
    std::array<float, 2> bounds = kNoBounds;  // of Clamp
  };
  // Of an input: `count` elements from `first` on of its last axis, as a Split takes them; count
  // -1: all.
  struct Window {
    int64_t first = 0;
    int64_t count = -1;
  };
  std::vector<Function> functions;
  std::vector<Window> windows;   // by input
  std::vector<int64_t> results;  // by output: the function that gives it

  void Write(Attributes& attributes) const;
};
// A node as a function of these values, with the bounds of a Clamp.
ChainOptions::Function FunctionOf(const Node& node, int64_t first, int64_t second);
// The attributes of a node, checked: a chain of `num_inputs` inputs.
absl::StatusOr<ChainOptions> ParseChain(const Node& node, size_t num_inputs);

// The axis from the end, 1 or more, along which an input of this shape broadcasts a value for each
// of its elements over later axes, as a bias of channels does; 0: it does not.
int ChannelAxis(absl::Span<const int64_t> shape);

// Inputs broadcast as NumPy has it; fast where they are of one shape, one element, or have one for
// each channel.
extern const OperatorCode kElementwiseChain;

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_KERNELS_ELEMENTWISE_CHAIN_H_
