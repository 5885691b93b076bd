// The functions that chains of element-wise operators run over blocks (elementwise_chain.cc,
// convolution_tiles.cc): for each a loop over two blocks, and, for functions of two operands, loops
// in which one operand is a single number. FindElementFunction looks one up by its operator's name.
//
// Loops are functions with __restrict parameters, as a lambda's captures cannot be, and are
// compiled for each instruction set (Vectorized). AddAndClamp and ApplyHardSwish are the most
// frequent ends of convolutions in one loop each.
#include <cmath>

#include "ops/base/vector_isa.h"
#include "ops/kernels/elementwise.h"
#include "ops/kernels/elementwise_chain.h"
#include "ops/kernels/math.h"

namespace beamwright::ops {
namespace {

// The pointers of a lambda's captures are not restrict; those of these functions are. A step of 0
// reads one element for all.
template <typename F>
BW_ALWAYS_INLINE inline void MapLoop(const float* __restrict a, int64_t count,
                                     float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = F()(a[i]);
  }
}
template <typename F>
BW_ALWAYS_INLINE inline void MapPairsLoop(const float* __restrict a, const float* __restrict b,
                                          int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = F()(a[i], b[i]);
  }
}
template <typename F>
BW_ALWAYS_INLINE inline void SecondIsOneLoop(const float* __restrict a, float b, int64_t count,
                                             float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = F()(a[i], b);
  }
}
template <typename F>
BW_ALWAYS_INLINE inline void FirstIsOneLoop(float a, const float* __restrict b, int64_t count,
                                            float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = F()(a, b[i]);
  }
}

template <typename F>
void Map(const float* a, const float* /*b*/, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE { MapLoop<F>(a, count, out); });
}
template <typename F>
void MapPairs(const float* a, const float* b, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE { MapPairsLoop<F>(a, b, count, out); });
}
template <typename F>
void SecondIsOne(const float* a, const float* b, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE { SecondIsOneLoop<F>(a, *b, count, out); });
}
template <typename F>
void FirstIsOne(const float* a, const float* b, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE { FirstIsOneLoop<F>(*a, b, count, out); });
}

BW_ALWAYS_INLINE inline float Clamped(float x, float least, float most) {
  const float raised = x < least ? least : x;
  return most < raised ? most : raised;
}

BW_ALWAYS_INLINE inline void ClampLoop(const float* __restrict a, float least, float most,
                                       int64_t count, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Clamped(a[i], least, most);
  }
}
void Clamp(const float* a, const float* bounds, int64_t count, float* out) {
  Vectorized([=]() BW_ALWAYS_INLINE { ClampLoop(a, bounds[0], bounds[1], count, out); });
}

BW_ALWAYS_INLINE inline void AddAndClampLoop(float bias, float least, float most, int64_t count,
                                             float* values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = Clamped(values[i] + bias, least, most);
  }
}

template <bool kBiased, bool kDivides>
BW_ALWAYS_INLINE inline void HardSwishLoop(HardSwish swish, float bias, int64_t count,
                                           float* values) {
  for (int64_t i = 0; i < count; ++i) {
    const float y = kBiased ? values[i] + bias : values[i];
    const float gated = y * Clamped(y + swish.shift, swish.least, swish.most);
    values[i] = kDivides ? gated / swish.last : gated * swish.last;
  }
}

#define BW_ELEMENT_FUNCTION(Name, parameters, result)                     \
  struct Name {                                                           \
    BW_ALWAYS_INLINE float operator() parameters const { return result; } \
  }
BW_ELEMENT_FUNCTION(AddOf, (float x, float y), x + y);
BW_ELEMENT_FUNCTION(SubtractOf, (float x, float y), x - y);
BW_ELEMENT_FUNCTION(MultiplyOf, (float x, float y), x* y);
BW_ELEMENT_FUNCTION(DivideOf, (float x, float y), x / y);
BW_ELEMENT_FUNCTION(ReluOf, (float x), x < 0.0f ? 0.0f : x);
BW_ELEMENT_FUNCTION(SigmoidOf, (float x), Sigmoid(x));
BW_ELEMENT_FUNCTION(TanhOf, (float x), Tanh(x));
BW_ELEMENT_FUNCTION(ExpOf, (float x), Exp(x));
BW_ELEMENT_FUNCTION(LogOf, (float x), Log(x));
BW_ELEMENT_FUNCTION(AbsOf, (float x), std::fabs(x));
BW_ELEMENT_FUNCTION(NegativeOf, (float x), -x);
BW_ELEMENT_FUNCTION(MaximumOf, (float x, float y), x < y ? y : x);
#undef BW_ELEMENT_FUNCTION

template <typename F>
constexpr ElementFunction OfTwo(absl::string_view op) {
  return {op, 2, &MapPairs<F>, &SecondIsOne<F>, &FirstIsOne<F>};
}

constexpr ElementFunction kFunctions[] = {OfTwo<AddOf>("Add"),
                                          OfTwo<SubtractOf>("Subtract"),
                                          OfTwo<MultiplyOf>("Multiply"),
                                          OfTwo<DivideOf>("Divide"),
                                          OfTwo<MaximumOf>("Maximum"),
                                          {"ReLU", 1, &Map<ReluOf>},
                                          {"Sigmoid", 1, &Map<SigmoidOf>},
                                          {"Tanh", 1, &Map<TanhOf>},
                                          {"Exp", 1, &Map<ExpOf>},
                                          {"Log", 1, &Map<LogOf>},
                                          {"Abs", 1, &Map<AbsOf>},
                                          {"Negative", 1, &Map<NegativeOf>},
                                          {kStableSoftPlusName, 1, &Map<StableSoftPlusOf>},
                                          {kGuardedSoftPlusName, 1, &Map<GuardedSoftPlusOf>},
                                          {"Clamp", 1, &Clamp}};

}  // namespace

const ElementFunction* FindElementFunction(absl::string_view op) {
  for (const ElementFunction& function : kFunctions) {
    if (function.op == op) {
      return &function;
    }
  }
  return nullptr;
}

void AddAndClamp(float bias, float least, float most, int64_t count, float* values) {
  Vectorized([=]() BW_ALWAYS_INLINE { AddAndClampLoop(bias, least, most, count, values); });
}

void ApplyHardSwish(const HardSwish& swish, bool biased, float bias, int64_t count, float* values) {
  Vectorized([=]() BW_ALWAYS_INLINE {
    if (biased && swish.divides) {
      HardSwishLoop<true, true>(swish, bias, count, values);
    } else if (biased) {
      HardSwishLoop<true, false>(swish, bias, count, values);
    } else if (swish.divides) {
      HardSwishLoop<false, true>(swish, bias, count, values);
    } else {
      HardSwishLoop<false, false>(swish, bias, count, values);
    }
  });
}

}  // namespace beamwright::ops
