// Guesses the roles of an encoder's inputs from their names, types and shapes, for a new bundle:
// which takes the source, which its length or a mask, and which requests must bring
// (GuessEncoderRoles).
//
// 1. An input with a name such as "lengths" or "mask", and a type and rank that fit, has the length
//    (GuessLengthKind). At most one may.
// 2. Of the others, one is the source: the one that the user named, the only one, the only one with
//    an open length, or the only one with a usual name (ChooseSource). A graph that looks like a
//    step of a decoder is refused instead.
// 3. The axis of the length and the number of ids follow from the source's shape and the table that
//    it is looked up in.
//
// Each decision adds a sentence to `reasons`, which the user reads.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"
#include "tools/graph/name_stem.h"
#include "tools/graph/ports.h"
#include "tools/graph/roles.h"

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

namespace {

bool IsOpen(const Port& port) {
  const Shape& dims = port.info.shape.dims();
  return port.info.shape.has_rank() && dims.size() > 1 &&
         std::find(dims.begin() + 1, dims.end(), PartialShape::kDynamic) != dims.end();
}

// A graph with a token of each row and states is the step of a decoder.
bool IsStep(const Ports& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Port& port) {
    const PartialShape& shape = port.info.shape;
    return IsInteger(port.info.dtype) && shape.has_rank() &&
           (shape.rank() == 1 || (shape.rank() == 2 && shape.dim(1) == 1)) &&
           HasWord(port.name, {"token", "tokens", "ids", "input", "y"});
  });
}

// Which of several inputs takes the source, and why.
absl::StatusOr<Port> ChooseSource(const Ports& sources, std::string& why) {
  const Ports open = Where(sources, IsOpen);
  const Ports named = Where(open, [](const Port& port) {
    return HasWord(port.name, {"source", "src", "tokens", "text", "ids", "input", "x", "audio",
                               "speech", "features", "frames", "image"});
  });
  if (!IsStep(sources) && open.size() == 1) {
    why = "the only one whose length is open";
    return open[0];
  }
  if (!IsStep(sources) && named.size() == 1) {
    why = "by its name";
    return named[0];
  }
  return Invalid("the encoder's inputs are ", Listing(sources),
                 ", and which of them takes the source is left open; say which with "
                 "--source-input, and requests bring the others. Is it the decoder?");
}

}  // namespace

absl::StatusOr<EncoderRoles> GuessEncoderRoles(const Graph& encoder,
                                               std::vector<std::string>& reasons,
                                               const std::string& source_input) {
  const Ports inputs = InputPorts(encoder);
  const auto tells_length = [&](const Port& port) {
    return inputs.size() > 1 && port.name != source_input &&
           GuessLengthKind(encoder, port.node) != LengthKind::kNone;
  };
  const Ports lengths = Where(inputs, tells_length);
  const Ports sources = Where(inputs, [&](const Port& port) { return !tells_length(port); });
  if (sources.empty() || lengths.size() > 1) {
    return Invalid("the encoder's inputs are ", Listing(inputs),
                   "; it must have one for the source, and may have one for the source's length or "
                   "a mask. Is it the decoder?");
  }
  std::string why = inputs.size() == 1 ? "the only one" : "the one that is not the length";
  Port source = sources[0];
  if (const Port* told = FindPort(sources, source_input); told != nullptr) {
    source = *told;
    why = "you said so";
  } else if (!source_input.empty()) {
    return Invalid("--source-input: there is no input '", source_input, "'; there are ",
                   Listing(sources));
  } else if (sources.size() > 1) {
    BW_ASSIGN_OR_RETURN(source, ChooseSource(sources, why));
  }
  EncoderRoles roles;
  roles.input = source.name;
  if (IsInteger(source.info.dtype)) {
    roles.source_ids = LookedUpRows(encoder, source.node);
  }
  roles.length_axis = FindLengthAxis(source.info.shape);
  reasons.push_back(absl::StrCat("encoder input '", roles.input, "': ", why));
  for (const Port& port : sources) {
    if (port.name != roles.input) {
      roles.further_inputs.push_back(port.name);
      reasons.push_back(absl::StrCat("encoder input '", port.name, "' ", Name(port.info.dtype),
                                     port.info.shape.ToString(),
                                     ": requests bring it (further_inputs); for one that never "
                                     "changes add `constant` in the file"));
    }
  }
  if (roles.length_axis > 1) {
    reasons.push_back(absl::StrCat("source length: axis ", roles.length_axis, " of '", roles.input,
                                   "' ", source.info.shape.ToString(),
                                   ", the only open one besides the rows"));
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
