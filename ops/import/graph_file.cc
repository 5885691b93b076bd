#include "ops/import/graph_file.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/import/onnx.h"
#include "ops/import/openvino_ir.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kXml = ".xml";
constexpr absl::string_view kOnnx = ".onnx";

absl::Status UnknownName(const std::string& path) {
  return Invalid("'", path, "' is no graph file by its name, which must end in ", kXml,
                 " (OpenVINO IR) or ", kOnnx);
}

// "a/b/model.onnx" -> "a/b/"
std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

absl::StatusOr<Graph> ReadXml(const std::string& path, const ReadFileFunction& read,
                              const ImportOptions& options) {
  BW_ASSIGN_OR_RETURN(const std::string xml, read(path));
  // A graph without constants needs no weights file: only the importer knows.
  const absl::StatusOr<std::string> weights =
      read(absl::StrCat(absl::StripSuffix(path, kXml), ".bin"));
  if (!weights.ok() && !absl::IsNotFound(weights.status())) {
    return weights.status();
  }
  const absl::StatusOr<absl::string_view> view =
      weights.ok() ? absl::StatusOr<absl::string_view>(*weights) : weights.status();
  absl::StatusOr<Graph> graph = ParseOpenVinoIr(xml, view, options);
  return graph.ok() ? std::move(graph) : Annotate(graph.status(), absl::StrCat("'", path, "'"));
}

}  // namespace

bool IsGraphFileName(absl::string_view path) {
  return absl::EndsWith(path, kXml) || absl::EndsWith(path, kOnnx);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const ImportOptions& options) {
  if (!IsGraphFileName(path)) {
    return UnknownName(path);
  }
  return absl::EndsWith(path, kOnnx) ? ReadOnnx(path, options) : ReadOpenVinoIr(path, options);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const ReadFileFunction& read,
                                const ImportOptions& options) {
  if (!IsGraphFileName(path)) {
    return UnknownName(path);
  }
  if (!absl::EndsWith(path, kOnnx)) {
    return ReadXml(path, read, options);
  }
  BW_ASSIGN_OR_RETURN(const std::string bytes, read(path));
  const std::string folder = Folder(path);
  absl::StatusOr<Graph> graph = ParseOnnx(
      bytes, [&](const std::string& name) { return read(folder + name); }, options);
  return graph.ok() ? std::move(graph) : Annotate(graph.status(), absl::StrCat("'", path, "'"));
}

}  // namespace beamwright::ops
