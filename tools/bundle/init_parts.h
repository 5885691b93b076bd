// What all kinds of `init` share: reading graphs, names, writing and trying the bundle.
#ifndef BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
#define BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph/graph.h"
#include "ops/import/onnx_metadata.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/init.h"
#include "tools/bundle/text_side.h"

namespace beamwright::tools {

inline constexpr char kConfigFile[] = "model.textproto";

// Reads a graph and keeps its files: the graph and an IR's weights under `role` ("encoder.xml",
// "encoder.bin"), external data by the names that the graph knows them by. `name`: the graph's in
// the bundle.
absl::StatusOr<ops::Graph> TakeGraph(const std::string& path, const std::string& role, Files& files,
                                     std::string& name);
// Of an ONNX file; of others empty.
ops::Metadata MetadataOf(const std::string& path);
// The same graph file with other content, in the place of what TakeGraph kept as `name`.
absl::StatusOr<ops::Graph> TakeChangedGraph(const std::string& path, const std::string& name,
                                            std::string content, Files& files);

// A vocabulary of one side, kept under that side's name.
absl::StatusOr<TextSide> TakeText(const std::string& side, const std::string& path,
                                  const SpecialTokens& special, Files& files,
                                  std::vector<std::string>& reasons);
// Without a vocabulary the file says how many ids there are.
v1::TextConfig SizedConfig(const TextSide& side);

struct EncoderSide {
  ops::Graph graph;
  v1::EncoderConfig config;
  TextSide source;
};
// options.encoder with the source's vocabulary. `from_zero`: an encoder that was exported for
// streams is taken as one for whole sources where that is possible (tools/bundle/encoder_states.h).
absl::StatusOr<EncoderSide> TakeEncoder(const InitOptions& options, bool from_zero, Files& files,
                                        std::vector<std::string>& reasons);

// The server takes the folder's name where the file has none.
absl::Status CheckName(const std::string& given, const std::string& out);

void PrintLines(const char* label, const std::vector<std::string>& lines, std::ostream& output);
absl::Status WriteBundle(const std::string& out, const Files& files, std::ostream& output);
// As a server does, before `init` says to serve it. `stepped`: the graph that is run step by
// step, for what may be wrong with it.
absl::Status TryWritten(const std::string& out, const ops::Graph& stepped, std::ostream& output);

}  // namespace beamwright::tools

#endif  // BEAMWRIGHT_TOOLS_BUNDLE_INIT_PARTS_H_
