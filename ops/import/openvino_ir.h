// Reads OpenVINO IR (a graph in XML, its constants in a second file) into a Graph. Forms,
// versions, limits and errors: docs/graph-files.md. A file is not trusted: whatever it holds, the
// answer is a Graph or an error that names the layer, and memory stays in proportion to the two
// files.
//
// What comes out is sound in structure (every input connected, topological order, loop maps
// complete); types and shapes are what the file declares, and InferGraph checks them.
#ifndef BEAMWRIGHT_OPS_IMPORT_OPENVINO_IR_H_
#define BEAMWRIGHT_OPS_IMPORT_OPENVINO_IR_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/import/import_options.h"

namespace beamwright::ops {

inline constexpr size_t kMaxIrXmlBytes = size_t{32} << 20;

// Reads `xml_path` and the weights next to it (".xml" replaced by ".bin"). A weights file that
// can't be read is an error only if a constant needs it. InvalidArgument: the file is wrong;
// Unimplemented: it asks for what is not supported; NotFound and the like: it can't be read.
absl::StatusOr<Graph> ReadOpenVinoIr(const std::string& xml_path,
                                     const ImportOptions& options = {});

// The same where `open` opens both files by their paths.
absl::StatusOr<Graph> ReadOpenVinoIr(const std::string& xml_path, const OpenFileFunction& open,
                                     const ImportOptions& options);

// The same from memory. `weights` is the content of the .bin file, an error if missing (it is
// returned, with the layer's name, if a constant needs weights). Nothing of the arguments is kept.
absl::StatusOr<Graph> ParseOpenVinoIr(absl::string_view xml,
                                      const absl::StatusOr<absl::string_view>& weights,
                                      const ImportOptions& options = {});

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_OPENVINO_IR_H_
