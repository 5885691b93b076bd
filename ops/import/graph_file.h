// Graph files become graphs: ReadGraph reads a file of whatever form; ReadOpenVinoIr and ReadOnnx
// read one form each (ops/import/marian.h the third). First what readers of all forms share: their
// options, how they come by files, tensors whose elements lie in files, and the operators by which
// they infer types.
#ifndef BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_
#define BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/base/file.h"
#include "ops/graph/graph.h"
#include "ops/graph/operator.h"
#include "ops/tensor/tensor.h"

namespace beamwright::ops {

// What readers of graph files share: their options, and how they come by files.

struct ImportOptions {
  // false: layers of unknown type are an Unimplemented error that lists all of them. true: they
  // become nodes with the file's type as op and all attributes as strings; good for looking at a
  // graph, not for running it.
  bool keep_unknown_layers = false;
  // A folder that links of weights' files may lead into, in addition to the folder of the graph
  // file. Empty: none. For ReadGraph(path), which opens files by itself.
  std::string allow_links;
};

// With keep_unknown_layers, an attribute of a node whose operator is known, but which could not be
// read because another fault keeps from being known what it reads: only that one is in the way.
inline constexpr char kHiddenOperator[] = "hidden_by_another_fault";

// Opens a file by its name, as the graph file or its reader spells it. The caller who gives the
// function decides which files may be read; a graph file is not trusted.
using InputFilePtr = std::shared_ptr<const InputFile>;
using OpenFileFunction = std::function<absl::StatusOr<InputFilePtr>(const std::string& name)>;

// The same where files are in memory.
using ReadFileFunction = std::function<absl::StatusOr<std::string>(const std::string& name)>;

// Files that are taken for graph files or weights and are something else.

// InvalidArgument if the file is a Git LFS pointer, an archive or an ONNX Runtime model, saying
// what it is and what to do; OK for all else, which need not be what is wanted. Does not name the
// file.
absl::Status CheckFileKind(const InputFile& file);

// The same of weights, which may begin with any bytes: a Git LFS pointer alone is recognised, and
// only in a file as short as one.
absl::Status CheckWeightsKind(const InputFile& file);

// Tensors whose elements stand in a file as they stand in memory.

// The elements from `offset` on, which must lie in the file; of booleans any byte but 0 is true.
// In a DeferredScope (ops/tensor/tensor_memory.h) a large tensor is read when it is needed.
// DataLoss if the file has changed.
absl::StatusOr<Tensor> ReadTensor(const InputFilePtr& file, int64_t offset, DType dtype,
                                  const Shape& shape);

// Opens a graph file and the weights next to it, for callers without rules for files.

// Opens `graph_path` wherever it leads, for it was named by the user, and other files where their
// links end in the folder of `graph_path` or in the folder `allow_links`, unless that is empty.
OpenFileFunction FilesBeside(const std::string& graph_path, const std::string& allow_links);

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(absl::string_view path);

// The operators that importers infer types and shapes with.

// Loops need no entry: their inference is the graph's own.
const OperatorSet& KnownOperatorSet();

// The form follows from the name: ".xml" is OpenVINO IR (ReadOpenVinoIr), ".onnx" ONNX
// (ReadOnnx), ".bin#encoder" and ".bin#decoder" a part of a Marian model
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

// Reads OpenVINO IR (a graph in XML, its constants in a second file) into a Graph. Forms,
// versions, limits and errors: docs/graph-files.md. A file is not trusted: whatever it holds, the
// answer is a Graph or an error that names the layer, and memory stays in proportion to the two
// files.
//
// What comes out is sound in structure (every input connected, topological order, loop maps
// complete); types and shapes are what the file declares, and InferGraph checks them.

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

// Reads ONNX models into a Graph: opsets 8 to 25 of the default domain, in the internal vocabulary
// (docs/operators.md). Forms, versions, limits and errors: docs/graph-files.md. A file is not
// trusted: whatever it holds, the answer is a Graph or an error that names the node, and memory
// stays in proportion to the file.
//
// What comes out has been inferred while it was built, because a node's translation may depend on
// types and ranks; InferGraph finds the same again.

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

#endif  // BEAMWRIGHT_OPS_IMPORT_GRAPH_FILE_H_
