#include "tools/bundle/init_parts.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/file.h"
#include "ops/base/model_name.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "ops/compile/shape_folding.h"
#include "ops/decoder/decoder_form.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "tools/bundle/bundle_text.h"
#include "tools/bundle/encoder_states.h"
#include "tools/bundle/encoder_streaming.h"
#include "tools/bundle/token_file.h"
#include "tools/bundle/try_bundle.h"
#include "tools/graph/frozen_reshape.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;

using ops::Graph;
using ops::Operators;

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// As a server has it before it compiles it.
absl::StatusOr<Graph> Prepared(Graph graph, const std::string& path) {
  absl::StatusOr<ops::GraphInfo> info = ops::InferGraph(graph, Operators());
  absl::Status status = info.status();
  if (info.ok()) {
    status = ops::FoldShapes(graph, *info, Operators());
  }
  if (status.ok()) {
    status = ops::LeaveTheStep(graph);
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("'", path, "'"));
  }
  return graph;
}

// Of an encoder that was exported for streams: `graph` is without its states afterwards, and so is
// the bundle's file, unless the bundle has it read chunk by chunk (`streaming`).
absl::Status TakeStatesAway(const std::string& path, const std::string& name, Graph& graph,
                            Files& files, std::optional<v1::StreamingConfig>& streaming,
                            std::vector<std::string>& reasons) {
  const std::vector<EncoderState> states = FindEncoderStates(graph);
  if (states.empty()) {
    return absl::OkStatus();
  }
  ops::Metadata metadata = MetadataOf(path);
  absl::Status status = CheckWholeSource(graph, states, metadata["model_type"]);
  absl::StatusOr<std::string> changed;
  if (const auto chunks = FindChunks(metadata); !status.ok() && chunks.has_value()) {
    streaming = StreamingConfigOf(*chunks, states, reasons);
    const std::string as_exported = files[name];
    changed = StartAtZero(as_exported, graph, states);
    if (!changed.ok()) {
      return Annotate(changed.status(), absl::StrCat("'", path, "'"));
    }
    BW_ASSIGN_OR_RETURN(graph, TakeChangedGraph(path, name, *std::move(changed), files));
    files[name] = as_exported;
    return absl::OkStatus();
  }
  if (status.ok()) {
    changed = StartAtZero(files[name], graph, states);
    status = changed.status();
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("'", path, "'"));
  }
  for (const EncoderState& state : states) {
    reasons.push_back(absl::StrCat(
        "encoder state '", state.input, "' <- '", state.output,
        "': alike but for words such as new and next; it begins at zero, for the encoder runs once "
        "over a whole source: the bundle's file has zeros in its place"));
  }
  BW_ASSIGN_OR_RETURN(graph, TakeChangedGraph(path, name, *std::move(changed), files));
  return absl::OkStatus();
}

// Of an encoder forward(input, hidden), which is called with zeros.
absl::Status TakeZerosAway(const std::string& path, const std::string& name,
                           const std::string& source_input, Graph& graph, Files& files,
                           std::vector<std::string>& reasons) {
  const std::vector<EncoderState> states = FindInitialStates(graph, source_input);
  if (states.empty()) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> changed = StartAtZero(files[name], graph, states);
  if (!changed.ok()) {
    return absl::Status(
        changed.status().code(),
        absl::StrCat("'", path, "': input '", states[0].input,
                     "' is what a recurrent layer starts with, and ", changed.status().message(),
                     "; leave it out, gru(x) in the place of gru(x, ", states[0].input,
                     "), and export again: it starts with zeros then"));
  }
  for (const EncoderState& state : states) {
    reasons.push_back(absl::StrCat(
        "encoder input '", state.input,
        "': by its name and because a recurrent layer starts with it; it is zeros, which the "
        "bundle's file has in its place. Is it something else, call it otherwise, and requests "
        "bring it"));
  }
  BW_ASSIGN_OR_RETURN(graph, TakeChangedGraph(path, name, *std::move(changed), files));
  return absl::OkStatus();
}

SpecialTokens SourceTokens(const SpecialTokens& special) {
  SpecialTokens source;
  source.begin = special.source_begin.value_or("");
  if (!special.source_end.value_or("").empty()) {
    source.ends = {*special.source_end};
  }
  return source;
}

}  // namespace

absl::StatusOr<Graph> TakeGraph(const std::string& path, const std::string& role, Files& files,
                                std::string& name) {
  const std::string stem = path.substr(0, path.rfind('.'));
  absl::Status added;
  const auto open = [&](const std::string& wanted) -> absl::StatusOr<ops::InputFilePtr> {
    BW_ASSIGN_OR_RETURN(std::string content, ReadFile(wanted));
    // Of an IR the weights' name follows; an ONNX file says what its weights are called.
    const bool own = wanted == path || (absl::EndsWith(path, ".xml") &&
                                        absl::StartsWith(wanted, absl::StrCat(stem, ".")));
    const std::string kept =
        own ? absl::StrCat(role, wanted.substr(stem.size())) : wanted.substr(FolderOf(path).size());
    if (wanted == path) {
      name = kept;
    }
    added.Update(AddFile(kept, content, files));
    return InputFile::OfContent(std::move(content));
  };
  BW_ASSIGN_OR_RETURN(Graph graph, ops::ReadGraph(path, open));
  BW_RETURN_IF_ERROR(added);
  return Prepared(std::move(graph), path);
}

ops::Metadata MetadataOf(const std::string& path) {
  const auto file = InputFile::Open(path);
  return file.ok() ? ops::OnnxMetadata(**file) : ops::Metadata();
}

absl::StatusOr<Graph> TakeChangedGraph(const std::string& path, const std::string& name,
                                       std::string content, Files& files) {
  const auto open = [&](const std::string& wanted) -> absl::StatusOr<ops::InputFilePtr> {
    if (wanted == path) {
      return InputFile::OfContent(content);
    }
    BW_ASSIGN_OR_RETURN(std::string beside, ReadFile(wanted));
    return InputFile::OfContent(std::move(beside));
  };
  BW_ASSIGN_OR_RETURN(Graph graph, ops::ReadGraph(path, open));
  files[name] = std::move(content);
  return Prepared(std::move(graph), path);
}

absl::StatusOr<TextSide> TakeText(const std::string& side, const std::string& path,
                                  const SpecialTokens& special, Files& files,
                                  std::vector<std::string>& reasons) {
  BW_ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  if (!absl::EndsWith(path, ".model")) {
    content = WithUnixLines(content);
  }
  BW_ASSIGN_OR_RETURN(TextSide text, ReadTextSide(side, path, content, special, reasons));
  BW_RETURN_IF_ERROR(AddFile(text.config.vocabulary(), std::move(content), files));
  return text;
}

v1::TextConfig SizedConfig(const TextSide& side) {
  v1::TextConfig config = side.config;
  if (config.vocabulary().empty() && side.size > 0) {
    config.set_size(static_cast<int32_t>(side.size));
  }
  return config;
}

absl::StatusOr<EncoderSide> TakeEncoder(const InitOptions& options, bool from_zero, Files& files,
                                        std::vector<std::string>& reasons) {
  EncoderSide side;
  std::string name;
  BW_ASSIGN_OR_RETURN(side.graph, TakeGraph(options.encoder, "encoder", files, name));
  std::optional<v1::StreamingConfig> streaming;
  if (from_zero) {
    BW_RETURN_IF_ERROR(
        TakeStatesAway(options.encoder, name, side.graph, files, streaming, reasons));
  }
  BW_RETURN_IF_ERROR(
      TakeZerosAway(options.encoder, name, options.source_input, side.graph, files, reasons));
  absl::StatusOr<ops::EncoderRoles> roles =
      ops::GuessEncoderRoles(side.graph, reasons, options.source_input);
  if (!roles.ok()) {
    return Annotate(roles.status(), absl::StrCat("'", options.encoder, "'"));
  }
  if (streaming.has_value()) {
    roles->length_axis = ChunkAxis(side.graph, roles->input, streaming->chunk());
  }
  if (options.length_axis > 0) {
    roles->length_axis = options.length_axis;
  }
  if (roles->length_axis == 0) {
    return Invalid("'", options.encoder, "': '", roles->input,
                   "' leaves open which axis counts as the source's length; say which with "
                   "--length-axis (a picture [rows, channels, height, width] is usually read "
                   "along axis 3)");
  }
  side.config = EncoderConfigOf(name, *roles);
  if (streaming.has_value()) {
    *side.config.mutable_streaming() = *std::move(streaming);
  }
  side.source.size = roles->source_ids;
  if (!options.source_vocab.empty()) {
    BW_ASSIGN_OR_RETURN(side.source, TakeText("source", options.source_vocab,
                                              SourceTokens(options.special), files, reasons));
  }
  const int64_t rows = roles->source_ids;
  if (rows >= 0 && side.source.size > rows) {
    return Invalid("the source vocabulary has ", side.source.size,
                   " tokens, but the encoder's table only ", rows, " rows");
  }
  return side;
}

absl::Status CheckName(const std::string& given, const std::string& out) {
  if (!given.empty()) {
    return Annotate(CheckModelName(given), "--name");
  }
  std::error_code error;
  const fs::path folder = fs::absolute(fs::path(out) / "", error).lexically_normal();
  return Annotate(CheckModelName(folder.parent_path().filename().string()),
                  "--out names the model, for there is no --name");
}

void PrintLines(const char* label, const std::vector<std::string>& lines, std::ostream& output) {
  for (const std::string& line : lines) {
    output << label << Printable(line) << "\n";
  }
}

absl::Status WriteBundle(const std::string& out, const Files& files, std::ostream& output) {
  BW_RETURN_IF_ERROR(WriteFiles(out, files));
  for (const auto& [name, content] : files) {
    output << "wrote   " << Printable((fs::path(out) / name).string()) << "\n";
  }
  return absl::OkStatus();
}

absl::Status TryWritten(const std::string& out, const Graph& stepped, std::ostream& output) {
  const auto model = TryBundle(out, "");
  if (!model.ok()) {
    const std::string perhaps = ops::FrozenReshape(stepped);
    return absl::FailedPreconditionError(
        absl::StrCat("'", out, "' is written, but a server refuses it: ", model.status().message(),
                     perhaps.empty() ? "" : "; perhaps because ", perhaps));
  }
  output << "tried   it loads, and decodes a made-up source\n";
  PrintLines("found   ", FactsOf(**model), output);
  return absl::OkStatus();
}

}  // namespace beamwright::tools
