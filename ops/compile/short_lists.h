// The elements of short lists of integers, as far as shape arithmetic goes: what ShapeOf gives, and
// what is picked, joined, multiplied and broadcast from it.
#ifndef BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_
#define BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_

#include "ops/compile/extents.h"

namespace beamwright::ops {

// Whether a value is integers or truth values of rank 0 or 1 and a small, known number.
bool IsShortList(DType dtype, const ValueExtents& value);

// Elements of a tensor that is known at load.
void FindKnown(const Tensor& known, ValueExtents& value);

// Elements of the only output of `node`, whose inputs `found` knows; sets nothing if there is no
// rule for it.
void FindElements(const Node& node, const Extents& found, const GraphInfo& info,
                  const OperatorSet& operators, Symbols& symbols, ValueExtents& value);

// What is known of the inputs of a node beyond `info`: extents and elements that are numbers in
// every run, as the operator's own inference and kernel read them.
class KnownInputs {
 public:
  // All must outlive this.
  KnownInputs(const Graph& graph, const Node& node, const Extents& found, const GraphInfo& info);

  // Whether there is more than `info` has.
  bool is_news() const { return is_news_; }
  absl::Span<const InputInfo> infos() const { return infos_; }
  // The only output, computed; a tensor without a value unless all inputs are numbers, and the
  // output is a short list of integers [count] or a scalar (count 1), `value`.
  Tensor Compute(const OperatorSet& operators, const ValueExtents& value) const;

 private:
  const Node& node_;
  bool is_news_ = false;
  std::vector<Tensor> numbers_;  // by input; without a value: not numbers, or known to `info`
  std::vector<InputInfo> infos_;
};

// The shape of `data` reshaped to `pattern`, as far as it is known.
std::optional<std::vector<Extent>> ReshapedTo(const ValueExtents& data, const ValueExtents& pattern,
                                              bool special_zero);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SHORT_LISTS_H_
