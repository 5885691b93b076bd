// Reads ONNX models into a Graph: opsets 8 to 25 of the default domain, in the internal vocabulary
// (docs/operators.md). Forms, versions, limits and errors: docs/graph-files.md. A file is not
// trusted: whatever it holds, the answer is a Graph or an error that names the node, and memory
// stays in proportion to the file.
//
// What comes out has been inferred while it was built, because a node's translation may depend on
// types and ranks; InferGraph finds the same again.
#ifndef BEAMWRIGHT_OPS_IMPORT_ONNX_H_
#define BEAMWRIGHT_OPS_IMPORT_ONNX_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/graph/graph.h"
#include "ops/import/import_options.h"

namespace beamwright::ops {

// Reads `path`; external data may lie in the same folder or below it. InvalidArgument: the file is
// wrong; Unimplemented: it asks for what is not supported; NotFound and the like: it can't be read.
absl::StatusOr<Graph> ReadOnnx(const std::string& path, const ImportOptions& options = {});

// The same where `open` opens `path` and, by `path`'s folder and their location in the model, files
// of external data.
absl::StatusOr<Graph> ReadOnnx(const std::string& path, const OpenFileFunction& open,
                               const ImportOptions& options);

// The same from memory. `read` gives the files of external data by their location as the model
// spells it, which has been checked to be relative and to stay below the folder by its spelling;
// links are the function's business. Nothing of the arguments is kept.
absl::StatusOr<Graph> ParseOnnx(absl::string_view bytes, const ReadFileFunction& read,
                                const ImportOptions& options = {});

// An operator of the default domain that is understood, for the documentation.
struct OnnxOperatorLine {
  std::string name;
  int since = 0;        // the first opset here that has it
  std::string becomes;  // the operators of docs/operators.md that it is translated into
};
// By name.
std::vector<OnnxOperatorLine> ListOnnxOperators();

// What to do about an operator that is not supported, by its type and domain, such as
// "com.microsoft.nchwc.Conv"; nullptr where nothing is known that helps.
const char* OnnxRemedy(absl::string_view type);

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_IMPORT_ONNX_H_
