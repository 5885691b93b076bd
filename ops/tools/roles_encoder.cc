#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "ops/tools/name_stem.h"
#include "ops/tools/ports.h"
#include "ops/tools/roles.h"

namespace beamwright::ops {

LengthKind GuessLengthKind(const Graph& graph, int parameter) {
  const std::string name = PortName(graph, parameter);
  const ValueInfo& info = graph.node(parameter).outputs[0];
  const int rank = info.shape.has_rank() ? info.shape.rank() : 1;
  if (IsInteger(info.dtype) && rank <= 1 &&
      HasWord(name, {"length", "lengths", "len", "lens", "seqlen", "seqlens"})) {
    return LengthKind::kLengths;
  }
  if (HasWord(name, {"mask", "masks"}) && rank <= 2) {
    // A padding mask is true where there is no token: zeros at every real one, like what is added
    // to scores.
    const bool zero_at_tokens = HasWord(name, {"pad", "padding", "additive", "bias"}) ||
                                FirstOperatorOn(graph, parameter) == "Add";
    return zero_at_tokens ? LengthKind::kAdditiveMask : LengthKind::kMask;
  }
  return LengthKind::kNone;
}

absl::StatusOr<EncoderRoles> GuessEncoderRoles(const Graph& encoder,
                                               std::vector<std::string>& reasons) {
  const Ports inputs = InputPorts(encoder);
  const auto tells_length = [&](const Port& port) {
    return inputs.size() > 1 && GuessLengthKind(encoder, port.node) != LengthKind::kNone;
  };
  const Ports lengths = Where(inputs, tells_length);
  const Ports sources = Where(inputs, [&](const Port& port) { return !tells_length(port); });
  if (sources.size() != 1 || lengths.size() > 1) {
    return Invalid("the encoder's inputs are ", Listing(inputs),
                   "; it must have one for the source, and may have one for the source's length or "
                   "a mask. Is it the decoder?");
  }
  EncoderRoles roles;
  roles.input = sources[0].name;
  if (IsInteger(sources[0].info.dtype)) {
    roles.source_ids = LookedUpRows(encoder, sources[0].node);
  }
  roles.length_axis = FindLengthAxis(sources[0].info.shape);
  reasons.push_back(
      absl::StrCat("encoder input '", roles.input,
                   "': ", inputs.size() == 1 ? "the only one" : "the one beside the length"));
  if (roles.length_axis > 1) {
    reasons.push_back(absl::StrCat("source length: axis ", roles.length_axis, " of '", roles.input,
                                   "' ", sources[0].info.shape.ToString(),
                                   ", the only open one beside the rows"));
  }
  if (roles.source_ids >= 0) {
    reasons.push_back(absl::StrCat("source ids below ", roles.source_ids,
                                   ": rows of the table that '", roles.input, "' is looked up in"));
  }
  if (!lengths.empty()) {
    roles.length_input = lengths[0].name;
    roles.length_kind = GuessLengthKind(encoder, lengths[0].node);
    reasons.push_back(
        absl::StrCat("encoder length input '", roles.length_input, "': by its name and type"));
  }
  return roles;
}

}  // namespace beamwright::ops
