#include "ops/import/onnx_metadata.h"

#include "ops/import/onnx_outline.h"

namespace beamwright::ops {

Metadata OnnxMetadata(const InputFile& file) {
  Metadata metadata;
  const absl::StatusOr<std::string> outline = OutlineOnnx(file);
  onnx::ModelProto model;
  if (!outline.ok() || !model.ParseFromArray(outline->data(), static_cast<int>(outline->size()))) {
    return metadata;
  }
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    metadata.emplace(entry.key(), entry.value());
  }
  return metadata;
}

}  // namespace beamwright::ops
