// Reads a graph file of whatever form: the one entry for those who do not care which it is.
#ifndef BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_
#define BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/import/import_options.h"

namespace beamwright::ops {

// The form follows from the name: ".xml" is OpenVINO IR (ops/import/openvino_ir.h), ".onnx" ONNX
// (ops/import/onnx.h), ".bin#encoder" and ".bin#decoder" a part of a Marian model
// (ops/import/marian.h). Weights in separate files are read from the graph file's folder; links
// may lead out of it into options.allow_links alone.
// InvalidArgument: another name, or a wrong file; Unimplemented: the file asks for what is not
// supported; NotFound and the like: it can't be read. Messages begin with the path.
absl::StatusOr<Graph> ReadGraph(const std::string& path, const ImportOptions& options = {});

// The same where `open` opens every file, `path` itself and the files that it names, by its path
// from where `path` counts.
absl::StatusOr<Graph> ReadGraph(const std::string& path, const OpenFileFunction& open,
                                const ImportOptions& options = {});

// Whether the name is one that ReadGraph takes.
bool IsGraphFileName(absl::string_view path);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_
