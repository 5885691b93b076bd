// Reads a graph file by what its name ends in: .xml (OpenVINO IR), .onnx, or a part of a Marian
// model (.bin#encoder). A name that ends otherwise is refused with the file that is probably meant.
#include "ops/import/graph_file.h"

#include <utility>

#include "absl/strings/match.h"
#include "ops/base/status.h"
#include "ops/import/import_options.h"
#include "ops/import/marian.h"
#include "ops/import/onnx.h"
#include "ops/import/openvino_ir.h"

namespace beamwright::ops {
namespace {

constexpr absl::string_view kXml = ".xml";
constexpr absl::string_view kOnnx = ".onnx";

absl::Status UnknownName(const std::string& path) {
  const char* remedy = "";
  if (absl::EndsWith(path, ".ort")) {
    remedy = "; .ort is ONNX Runtime's own format: give the .onnx file it was made from";
  } else if (absl::EndsWith(path, ".bin")) {
    remedy =
        "; of a Marian model name the part as well, .bin#encoder or .bin#decoder, and of an "
        "OpenVINO IR the .xml file";
  } else if (absl::EndsWith(path, ".npz")) {
    remedy = "; a Marian model in .npz is converted by `beamwright-graph init`";
  }
  return Invalid("'", path, "' is not the name of a graph file, which ends in ", kXml,
                 " (OpenVINO IR) or ", kOnnx, remedy);
}

absl::StatusOr<Graph> ReadMarianPart(const std::string& path, const OpenFileFunction& open) {
  const MarianGraphName name = ParseMarianGraphName(path);
  BW_ASSIGN_OR_RETURN(InputFilePtr file, open(name.path));
  absl::StatusOr<Graph> graph = ReadMarian(std::move(file), name.part);
  return graph.ok() ? std::move(graph)
                    : Annotate(graph.status(), absl::StrCat("'", name.path, "'"));
}

}  // namespace

bool IsGraphFileName(absl::string_view path) {
  return absl::EndsWith(path, kXml) || absl::EndsWith(path, kOnnx) || IsMarianGraphName(path);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const ImportOptions& options) {
  const std::string file = IsMarianGraphName(path) ? ParseMarianGraphName(path).path : path;
  return ReadGraph(path, FilesBeside(file, options.allow_links), options);
}

absl::StatusOr<Graph> ReadGraph(const std::string& path, const OpenFileFunction& open,
                                const ImportOptions& options) {
  if (!IsGraphFileName(path)) {
    return UnknownName(path);
  }
  if (IsMarianGraphName(path)) {
    return ReadMarianPart(path, open);
  }
  return absl::EndsWith(path, kOnnx) ? ReadOnnx(path, open, options)
                                     : ReadOpenVinoIr(path, open, options);
}

}  // namespace beamwright::ops
