#include "tools/bundle/fixed_extents.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/graph/trace.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
namespace {

using ops::PartialShape;
using ops::Port;

std::string Shown(const Port& port) {
  return absl::StrCat("'", port.name, "' ", ops::Name(port.info.dtype), port.info.shape.ToString());
}

std::string ExportAgain(const std::string& name, int axis) {
  return absl::StrCat(
      "; to serve others, export it again with that axis dynamic (PyTorch: "
      "dynamic_axes={'",
      name, "': {0: 'rows', ", axis, ": 'length'}, ...})");
}

void AddSource(const Port& source, int length_axis, std::vector<std::string>& lines) {
  const PartialShape& shape = source.info.shape;
  const int axis = std::max(length_axis > 0 ? length_axis : ops::FindLengthAxis(shape), 1);
  if (axis < shape.rank() && shape.dim(axis) != PartialShape::kDynamic) {
    lines.push_back(absl::StrCat("every source must have exactly ", shape.dim(axis),
                                 " positions: the export fixed axis ", axis, " of ", Shown(source),
                                 ExportAgain(source.name, axis)));
  }
}

void AddMemory(const Port& memory, const Port& result, std::vector<std::string>& lines) {
  const PartialShape& takes = memory.info.shape;
  const PartialShape& gives = result.info.shape;
  for (int axis = 1; axis < std::min(takes.rank(), gives.rank()); ++axis) {
    if (gives.dim(axis) == PartialShape::kDynamic && takes.dim(axis) != PartialShape::kDynamic) {
      lines.push_back(absl::StrCat("the encoder gives ", Shown(result), ", but the decoder takes ",
                                   Shown(memory), ": the export fixed axis ", axis,
                                   ExportAgain(memory.name, axis)));
    }
  }
}

}  // namespace

int64_t FixedLength(const ops::Graph& encoder, const v1::EncoderConfig& config) {
  const ops::Ports sources = ops::InputPorts(encoder);
  const Port* const source = FindPort(sources, config.input());
  const bool is_ids = source != nullptr && ops::IsInteger(source->info.dtype) &&
                      source->info.shape.has_rank() && source->info.shape.rank() == 2;
  return is_ids ? std::max<int64_t>(source->info.shape.dim(1), 0) : 0;
}

std::vector<std::string> FixedSource(const ops::Graph& encoder, const v1::EncoderConfig& config) {
  std::vector<std::string> lines;
  const ops::Ports sources = ops::InputPorts(encoder);
  if (const Port* source = FindPort(sources, config.input()); source != nullptr) {
    AddSource(*source, config.length_axis(), lines);
  }
  return lines;
}

std::vector<std::string> FixedExtents(const ops::Graph* encoder, const v1::EncoderConfig& config,
                                      const ops::Graph& decoder, const ops::DecoderRoles& roles,
                                      bool is_padded) {
  if (encoder == nullptr) {
    return {};
  }
  std::vector<std::string> lines;
  if (!is_padded) {
    lines = FixedSource(*encoder, config);
  }
  const ops::Ports inputs = ops::InputPorts(decoder);
  const ops::Ports results = ops::OutputPorts(*encoder);
  for (const ops::MemoryRole& memory : roles.memory) {
    const Port* input = FindPort(inputs, memory.input);
    const Port* result = FindPort(results, memory.encoder_output);
    if (input != nullptr && result != nullptr) {
      AddMemory(*input, *result, lines);
    }
  }
  return lines;
}

}  // namespace beamwright::tools
