// What init.cc and init_frames.cc share. Most of it is TakeEncoder, which reads an encoder's graph
// and makes its part of the configuration:
//
// 1. TakeGraph reads the file, with its weights, into the bundle's files under the name of its
//    role, and prepares the graph as the server does before it compiles (Prepared).
// 2. TakeStatesAway: an encoder that was exported for streams has states. If zeros are right for
//    them over a whole source, they become constants; if the file's metadata says how it is run
//    chunk by chunk, the states and the chunks go into the configuration. TakeZerosAway does the
//    same for the initial state of a recurrent layer.
// 3. GuessEncoderRoles: which input is the source, and which its length or mask. IsTrueAtPadding
//    runs the graph to learn whether a mask is 1 at tokens or at padding.
// 4. PutRowsFirst: a source [length, rows, ...] is transposed inside the bundle's file.
// 5. InputShape: extents besides the length that the export left open, as --input-shape gives them.
//    For pictures the usual heights are tried (ReadsPicture).
// 6. The axis of the length, and the vocabulary (TakeText), which must not have more tokens than
//    the encoder's table has rows.
//
// Each decision appends its reason to `reasons`. The graph's file is changed only where the
// configuration cannot say it (TakeChangedGraph).
#include "tools/bundle/init_parts.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/tokenizer_file.h"
#include "ops/base/file.h"
#include "ops/base/names.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/decoder/decoder_form.h"
#include "ops/decoder/decoder_ports.h"
#include "ops/graph/inference.h"
#include "ops/graph/trace.h"
#include "ops/import/graph_file.h"
#include "ops/loop/model.h"
#include "ops/loop/operators.h"
#include "ops/passes/passes.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/check.h"
#include "tools/bundle/encoder_input.h"
#include "tools/bundle/token_file.h"
#include "tools/graph/check.h"
#include "tools/graph/ports.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;

using ops::Graph;
using ops::Operators;

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Refuses steps of encoder-decoders by transformers' own exporter: it writes no encoder, and keys
// and values of the source come of its first step alone.
absl::Status CheckExporter(const Graph& graph) {
  for (const ops::Ports& ports : {ops::InputPorts(graph), ops::OutputPorts(graph)}) {
    for (const ops::Port& port : ports) {
      if (absl::StrContains(port.name, "self_attention_cache.layers.")) {
        return Invalid(
            "is written by transformers' OnnxExporter, which writes no encoder; export "
            "the model with `optimum-cli export onnx --model MODEL FOLDER` and give "
            "encoder_model.onnx and decoder_model_merged.onnx of FOLDER");
      }
    }
  }
  return absl::OkStatus();
}

// The graph as a server has it before it compiles it.
absl::StatusOr<Graph> Prepared(Graph graph, const std::string& path) {
  ops::TakeFloatIds(graph);
  absl::StatusOr<ops::GraphInfo> info = ops::InferGraph(graph, Operators());
  absl::Status status = info.status();
  if (info.ok()) {
    status = ops::FoldShapes(graph, *info, {Operators()}).status();
  }
  if (status.ok()) {
    status = ops::LeaveTheStep(graph);
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("'", path, "'"));
  }
  return graph;
}

// Removes the states of an encoder that was exported for streams, from `graph` and from the
// bundle's file; or, if the encoder is read chunk by chunk (`streaming`), from `graph` only.
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

// Replaces the file of a WeNet encoder by one whose caller computes nothing, with the CTC output.
absl::Status TakeWeNet(const InitOptions& options, const std::string& name, Graph& graph,
                       Files& files, std::vector<std::string>& reasons) {
  if (options.decoder == options.encoder) {
    return Invalid("'", options.encoder,
                   "' is one of two files of WeNet's exporter: give encoder.onnx and ctc.onnx");
  }
  BW_ASSIGN_OR_RETURN(const std::string head, ReadFile(options.decoder));
  absl::StatusOr<std::string> changed =
      WeNetEncoder(files[name], head, MetadataOf(options.encoder));
  if (!changed.ok()) {
    return Annotate(changed.status(), absl::StrCat("'", options.encoder, "'"));
  }
  reasons.push_back(
      "WeNet's encoder: the bundle's file computes offset and mask, as WeNet's programs do for "
      "each chunk, and has the CTC output of the second file; decoder.onnx, which rescores texts, "
      "is not used");
  BW_ASSIGN_OR_RETURN(graph, TakeChangedGraph(options.encoder, name, *std::move(changed), files));
  return absl::OkStatus();
}

// Removes the input for the initial state of an encoder forward(input, hidden), which is called
// with zeros.
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
    // The weights of an IR are renamed with it; an ONNX file says what its weights are called.
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
  BW_RETURN_IF_ERROR(Annotate(CheckExporter(graph), absl::StrCat("'", path, "'")));
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

absl::StatusOr<std::string> ReadText(const std::string& path, const std::string& token_ids) {
  BW_ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  if (token_ids.empty()) {
    return IsSentencePiece(path) ? content : WithUnixLines(content);
  }
  BW_ASSIGN_OR_RETURN(const std::string list, ReadFile(token_ids));
  const absl::StatusOr<std::vector<std::string>> tokens = ReadTokenIds(list);
  if (!tokens.ok()) {
    return Annotate(tokens.status(), absl::StrCat("--token-ids '", token_ids, "'"));
  }
  absl::StatusOr<std::string> numbered = NumberPieces(content, *tokens);
  return numbered.ok() ? std::move(numbered)
                       : Annotate(numbered.status(), absl::StrCat("vocabulary '", path, "'"));
}

absl::StatusOr<TextSide> TakeText(const std::string& side, const std::string& path,
                                  const std::string& token_ids, const SpecialTokens& special,
                                  Files& files, std::vector<std::string>& reasons) {
  BW_ASSIGN_OR_RETURN(std::string content, ReadText(path, token_ids));
  if (side == "target" && bundle::IsTokenizerFile(content)) {
    absl::StatusOr<std::optional<std::string>> pieces = PiecesOfTokenizer(content);
    if (!pieces.ok()) {
      return Annotate(pieces.status(), absl::StrCat("target vocabulary '", path, "'"));
    }
    if (pieces->has_value()) {
      content = **std::move(pieces);
      reasons.push_back(absl::StrCat("target text is that of the pieces of '", path,
                                     "'; text of a request is cut into the longest ones"));
    }
  }
  const bool is_numbered = side == "target" && IsNumberedList(content);
  if (is_numbered) {
    BW_ASSIGN_OR_RETURN(const TokenFile file, ReadTokenFile(path, content, reasons));
    content = absl::StrCat(absl::StrJoin(file.tokens, "\n"), "\n");
  }
  BW_ASSIGN_OR_RETURN(TextSide text, ReadTextSide(side, path, content, special, reasons,
                                                  is_numbered ? Vocabulary::Lines::kColumns
                                                              : Vocabulary::Lines::kDistinct));
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

namespace {

// Gives `graph` the extents of its input behind the rows.
absl::Status Fix(ops::Graph& graph, const std::string& input, const std::vector<int64_t>& extents) {
  const ops::Ports inputs = ops::InputPorts(graph);
  const ops::Port* const port = ops::FindPort(inputs, input);
  ops::PartialShape& shape = graph.node(port->node).outputs[0].shape;
  if (!shape.has_rank() || shape.rank() != static_cast<int>(extents.size()) + 1) {
    return Invalid("--input-shape: has ", extents.size(), " extents; '", input, "' is ",
                   shape.ToString(), ", whose first axis counts rows");
  }
  ops::Shape dims = shape.dims();
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] != -1 && (extents[i] < 1 || (dims[i + 1] >= 0 && dims[i + 1] != extents[i]))) {
      return Invalid("--input-shape: extent ", i, " is ", extents[i], "; '", input, "' is ",
                     shape.ToString(), ", and -1 keeps what the graph says");
    }
    dims[i + 1] = extents[i] == -1 ? dims[i + 1] : extents[i];
  }
  shape = ops::PartialShape(std::move(dims));
  return absl::OkStatus();
}

// Whether the graph reads a picture of these extents, 320 wide.
bool ReadsPicture(ops::Graph graph, const std::string& input, const std::vector<int64_t>& extents) {
  constexpr int64_t kWidth = 320;
  if (!Fix(graph, input, extents).ok() || graph.parameters.size() != 1) {
    return false;
  }
  const auto model = ops::Model::Compile(std::move(graph));
  if (!model.ok()) {
    return false;
  }
  const std::vector<ops::Tensor> inputs = {
      ops::Tensor::Zeros(ops::DType::kF32, {1, extents[0], extents[1], kWidth})};
  std::vector<ops::Tensor> outputs;
  return (*model)->Run(ops::ExecutionContext(), inputs, outputs).ok();
}

// Extents of the source behind its rows where the graph leaves open more than its length, as given
// or tried; empty: the graph says it. Sets the axis of the length, if it is the only one left.
absl::StatusOr<std::vector<int64_t>> InputShape(ops::Graph& graph, const InitOptions& options,
                                                ops::EncoderRoles& roles,
                                                std::vector<std::string>& reasons) {
  // Heights that PaddleOCR trains with today and did earlier (and CRNNs do), then others.
  constexpr int64_t kUsualHeights[] = {48, 32, 64, 40, 96};
  std::vector<int64_t> extents = options.input_shape;
  const ops::Ports inputs = ops::InputPorts(graph);
  const ops::PartialShape shape = ops::FindPort(inputs, roles.input)->info.shape;
  const bool is_tall = extents.empty() && roles.length_axis == 0 &&
                       !options.length_axis.has_value() && shape.has_rank() && shape.rank() == 4 &&
                       shape.dim(1) > 0 && shape.dim(1) <= 4 && shape.dim(2) < 0 &&
                       shape.dim(3) < 0;
  for (const int64_t height : kUsualHeights) {
    if (is_tall && extents.empty() &&
        ReadsPicture(graph, roles.input, {shape.dim(1), height, -1})) {
      extents = {shape.dim(1), height, -1};
      reasons.push_back(absl::StrCat(
          "pictures are ", height, " high: the export leaves '", roles.input, "' ",
          shape.ToString(), " open, and of the usual heights ", absl::StrJoin(kUsualHeights, ", "),
          " the graph reads this one first; check this, or say --input-shape"));
    }
  }
  if (extents.empty()) {
    return extents;
  }
  BW_RETURN_IF_ERROR(Fix(graph, roles.input, extents));
  const ops::Ports fixed = ops::InputPorts(graph);
  roles.length_axis = ops::FindLengthAxis(ops::FindPort(fixed, roles.input)->info.shape);
  if (roles.length_axis > 1) {
    reasons.push_back(absl::StrCat("source length: axis ", roles.length_axis, " of '", roles.input,
                                   "', the only open one besides the rows"));
  }
  return extents;
}

// Transposes the source of an encoder that reads [length, rows, ...], as --length-axis 0 says or
// the graph shows: `graph` and the bundle's file read [rows, length, ...] afterwards.
absl::Status PutRowsFirst(const InitOptions& options, const std::string& name, Graph& graph,
                          ops::EncoderRoles& roles, Files& files,
                          std::vector<std::string>& reasons) {
  const ops::Ports inputs = ops::InputPorts(graph);
  const ops::PartialShape& shape = ops::FindPort(inputs, roles.input)->info.shape;
  const bool is_given = options.length_axis == 0;
  const bool can_be = shape.has_rank() && (shape.rank() == 2 || shape.rank() == 3) &&
                      shape.dim(0) == ops::PartialShape::kDynamic &&
                      !options.length_axis.has_value() && options.input_shape.empty();
  if (!is_given && !can_be) {
    return absl::OkStatus();
  }
  Files changed = files;
  const absl::StatusOr<std::string> content = RowsFirst(files[name], roles.input);
  absl::StatusOr<Graph> rows_first =
      content.ok() ? TakeChangedGraph(options.encoder, name, *content, changed) : content.status();
  if (!rows_first.ok()) {
    return is_given ? Annotate(rows_first.status(), absl::StrCat("'", options.encoder, "'"))
                    : absl::OkStatus();
  }
  const std::string why = is_given ? "--length-axis 0" : ReadsTimeFirst(graph, *rows_first, roles);
  if (why.empty()) {
    return absl::OkStatus();
  }
  reasons.push_back(absl::StrCat(
      "source '", roles.input, "' is [length, rows", shape.rank() > 2 ? ", ...]: " : "]: ", why,
      "; the bundle's file reads it as '", RowsFirstName(roles.input), "', rows first"));
  files = std::move(changed);
  graph = *std::move(rows_first);
  roles.input = RowsFirstName(roles.input);
  roles.length_axis = 1;
  return absl::OkStatus();
}

// [rows, bins, frames] of which the export fixed bins and frames.
bool IsWhisper(const Graph& graph, const std::string& input) {
  const ops::Ports inputs = ops::InputPorts(graph);
  const ops::PartialShape& shape = ops::FindPort(inputs, input)->info.shape;
  return input == "input_features" && shape.has_rank() && shape.rank() == 3 &&
         (shape.dim(1) == 80 || shape.dim(1) == 128) && shape.dim(2) > 0;
}

}  // namespace

absl::StatusOr<EncoderSide> TakeEncoder(const InitOptions& options, bool from_zero, Files& files,
                                        std::vector<std::string>& reasons) {
  EncoderSide side;
  std::string name;
  BW_ASSIGN_OR_RETURN(side.graph, TakeGraph(options.encoder, "encoder", files, name));
  if (from_zero && IsWeNet(options)) {
    BW_RETURN_IF_ERROR(TakeWeNet(options, name, side.graph, files, reasons));
  }
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
  if (roles->length_kind == ops::LengthKind::kMask && IsTrueAtPadding(side.graph, *roles)) {
    roles->length_kind = ops::LengthKind::kAdditiveMask;
    reasons.push_back(absl::StrCat("mask '", roles->length_input,
                                   "' is 1 where there is no token: with ones a result does not "
                                   "follow the source, with zeros it does"));
  }
  if (!streaming.has_value()) {
    BW_RETURN_IF_ERROR(PutRowsFirst(options, name, side.graph, *roles, files, reasons));
  }
  BW_ASSIGN_OR_RETURN(const std::vector<int64_t> shape,
                      InputShape(side.graph, options, *roles, reasons));
  if (streaming.has_value()) {
    roles->length_axis = ChunkAxis(side.graph, roles->input, streaming->chunk());
  }
  if (options.length_axis.value_or(0) > 0) {
    roles->length_axis = *options.length_axis;
  } else if (IsWhisper(side.graph, roles->input)) {
    roles->length_axis = 2;
  }
  if (roles->length_axis == 0) {
    return Invalid("'", options.encoder, "': '", roles->input,
                   "' leaves open which axis counts as the source's length; say which with "
                   "--length-axis (a picture [rows, channels, height, width] is usually read "
                   "along axis 3), or all of its extents with --input-shape, as 3,48,-1");
  }
  side.config = EncoderConfigOf(name, *roles);
  if (options.length_axis.value_or(0) > 0) {
    // Axis 1 as well, which is not implied where all extents are fixed.
    side.config.set_length_axis(*options.length_axis);
  }
  side.config.mutable_shape()->Assign(shape.begin(), shape.end());
  if (streaming.has_value()) {
    *side.config.mutable_streaming() = *std::move(streaming);
  }
  side.source.size = roles->source_ids;
  if (!options.source_vocab.empty()) {
    BW_ASSIGN_OR_RETURN(side.source, TakeText("source", options.source_vocab, options.token_ids,
                                              SourceTokens(options.special), files, reasons));
  }
  const int64_t rows = side.source_rows = roles->source_ids;
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
    RemoveBundle(out);
    return absl::FailedPreconditionError(
        absl::StrCat("'", out, "' is removed, for a server refuses it: ", model.status().message(),
                     perhaps.empty() ? "" : "; perhaps because ", perhaps));
  }
  output << "tried   it loads, and decodes a made-up source\n";
  PrintLines("found   ", FactsOf(**model), output);
  return absl::OkStatus();
}

}  // namespace beamwright::tools
