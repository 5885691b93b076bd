#include "ops/import/graph_file.h"

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/files_beside.h"
#include "ops/import/onnx.h"
#include "ops/import/openvino_ir.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kXml = ".xml";
constexpr absl::string_view kOnnx = ".onnx";

absl::Status UnknownName(const std::string& path) {
  const bool is_ort = absl::EndsWith(path, ".ort");
  return Invalid(
      "'", path, "' is not the name of a graph file, which ends in ", kXml, " (OpenVINO IR) or ",
      kOnnx,
      is_ort ? "; .ort is ONNX Runtime's own format: give the .onnx file it was made from" : "");
}

}  // namespace

bool IsGraphFileName(absl::string_view path) {
  return absl::EndsWith(path, kXml) || absl::EndsWith(path, kOnnx);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const ImportOptions& options) {
  return ReadGraph(path, FilesBeside(path, options.allow_links), options);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const OpenFileFunction& open,
                                const ImportOptions& options) {
  if (!IsGraphFileName(path)) {
    return UnknownName(path);
  }
  return absl::EndsWith(path, kOnnx) ? ReadOnnx(path, open, options)
                                     : ReadOpenVinoIr(path, open, options);
}

}  // namespace beamwright::ops
