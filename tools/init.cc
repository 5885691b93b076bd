#include "tools/init.h"

#include <filesystem>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "ops/base/file.h"
#include "ops/base/model_name.h"
#include "ops/base/printable.h"
#include "ops/base/status.h"
#include "ops/compile/shape_folding.h"
#include "ops/decoder/decoder_form.h"
#include "ops/graph/inference.h"
#include "ops/import/graph_file.h"
#include "ops/loop/operators.h"
#include "ops/tools/frozen_reshape.h"
#include "ops/tools/replay.h"
#include "tools/bundle_folder.h"
#include "tools/bundle_text.h"
#include "tools/fixed_extents.h"
#include "tools/framing.h"
#include "tools/try_bundle.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;

using ops::Graph;
using ops::Operators;

// "a/b/model.onnx" -> "a/b/"
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Reads a graph and keeps its files: the graph and an IR's weights under `role` ("encoder.xml",
// "encoder.bin"), external data by the names that the graph knows them by.
absl::StatusOr<Graph> TakeGraph(const std::string& path, const std::string& role, Files& files,
                                std::string& name) {
  const std::string stem = path.substr(0, path.rfind('.'));
  absl::Status added;
  const auto open = [&](const std::string& wanted) -> absl::StatusOr<ops::InputFilePtr> {
    BW_ASSIGN_OR_RETURN(std::string content, ReadFile(wanted));
    const bool own = absl::StartsWith(wanted, absl::StrCat(stem, "."));
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

absl::StatusOr<TextSide> TakeText(const std::string& side, const std::string& path,
                                  const SpecialTokens& special, Files& files,
                                  std::vector<std::string>& reasons) {
  BW_ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  BW_ASSIGN_OR_RETURN(TextSide text, ReadTextSide(side, path, content, special, reasons));
  BW_RETURN_IF_ERROR(AddFile(text.config.vocabulary(), std::move(content), files));
  return text;
}

// Without a vocabulary the file says how many ids there are.
v1::TextConfig SizedConfig(const TextSide& side) {
  v1::TextConfig config = side.config;
  if (config.vocabulary().empty() && side.size > 0) {
    config.set_size(static_cast<int32_t>(side.size));
  }
  return config;
}

absl::Status CheckTargetSize(const ops::DecoderRoles& roles, const TextSide& target) {
  if (roles.target_ids < 0 || target.size < 0 || roles.target_ids == target.size) {
    return absl::OkStatus();
  }
  return Invalid("'", roles.logits_output, "' has scores for ", roles.target_ids,
                 " tokens, but the target vocabulary has ", target.size,
                 "; is it another model's, or the source's?");
}

absl::Status ReplayDecoder(const Graph& decoder, const std::vector<std::string>& archives,
                           std::ostream& output) {
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<ops::Model> model, ops::Model::Compile(decoder));
  BW_ASSIGN_OR_RETURN(const ops::TensorMap inputs, ops::ReadNpz(archives[0]));
  BW_ASSIGN_OR_RETURN(const ops::TensorMap expected, ops::ReadNpz(archives[1]));
  absl::StatusOr<std::vector<ops::Agreement>> agreements = ops::Replay(*model, inputs, expected);
  if (!agreements.ok()) {
    return Annotate(agreements.status(), "replay");
  }
  std::vector<std::string> differing;
  for (const ops::Agreement& agreement : *agreements) {
    output << "replay  " << ToString(agreement) << "\n";
    if (!agreement.agrees) {
      differing.push_back(absl::StrCat("'", agreement.output, "'"));
    }
  }
  return differing.empty()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "replay: ", absl::StrJoin(differing, ", "), " differ by more than ",
                   ops::kReplayTolerance, " of the largest value; nothing is written"));
}

// The server takes the folder's name where the file has none.
absl::Status CheckName(const InitOptions& options) {
  if (!options.name.empty()) {
    return Annotate(CheckModelName(options.name), "--name");
  }
  std::error_code error;
  const fs::path folder = fs::absolute(fs::path(options.out) / "", error).lexically_normal();
  return Annotate(CheckModelName(folder.parent_path().filename().string()),
                  "--out names the model, for there is no --name");
}

absl::Status CheckSpecialTokens(const TextSide& target) {
  std::vector<std::string> given(target.config.end_tokens().begin(),
                                 target.config.end_tokens().end());
  if (std::set<std::string>(given.begin(), given.end()).size() != given.size()) {
    return Invalid("--end: a token is given twice");
  }
  given.push_back(target.config.begin_token());
  for (const std::string& token : given) {
    int64_t id = 0;
    const bool is_id = absl::SimpleAtoi(token, &id) && absl::StrCat(id) == token && id >= 0 &&
                       (target.size < 0 || id < target.size);
    if (target.config.vocabulary().empty() && !token.empty() && !is_id) {
      return Invalid("target token '", token, "' is not a valid id; ",
                     target.size < 0 ? "without --target-vocab tokens are numbers from 0"
                                     : absl::StrCat("there are ", target.size, ", from 0"));
    }
  }
  return absl::OkStatus();
}

constexpr char kConfigFile[] = "model.textproto";

SpecialTokens SourceTokens(const SpecialTokens& special) {
  SpecialTokens source;
  source.begin = special.source_begin.value_or("");
  if (!special.source_end.value_or("").empty()) {
    source.ends = {*special.source_end};
  }
  return source;
}

// What was told is not a choice.
void Keep(const std::optional<std::string>& told, std::vector<std::string>& choices) {
  if (told.has_value()) {
    choices = {*told};
  }
}

std::vector<std::string> UnknownFraming(const FramingChoices& choices) {
  std::vector<std::string> unknown;
  const auto add = [&](absl::string_view where, absl::string_view flag,
                       const std::vector<std::string>& tokens) {
    if (tokens.size() > 1) {
      unknown.push_back(absl::StrCat(
          "whether sources were ", where, " '", tokens[1],
          "' in training: the vocabulary has it, and the bundle leaves it out. Wrong, and answers "
          "are wrong without an error: say ",
          flag, " '", tokens[1], "', or ", flag,
          " '' for none, or give --pairs FILE with known sources and targets, which tell"));
    }
  };
  add("begun with", "--source-begin", choices.source_begins);
  add("ended with", "--source-end", choices.source_ends);
  return unknown;
}

class Initialiser {
 public:
  Initialiser(const InitOptions& options, std::ostream& output)
      : options_(options), output_(output) {}

  absl::Status Run() {
    BW_RETURN_IF_ERROR(CheckOut(options_.out));
    BW_RETURN_IF_ERROR(CheckName(options_));
    BW_RETURN_IF_ERROR(ReadPairs());
    config_.set_format_version(1);
    config_.set_name(options_.name);
    BW_RETURN_IF_ERROR(ReadEncoder());
    std::string graph;  // its name in the bundle
    BW_ASSIGN_OR_RETURN(const Graph decoder, TakeGraph(options_.decoder, "decoder", files_, graph));
    BW_RETURN_IF_ERROR(ReadTarget());
    ops::RoleHints hints = options_.hints;
    hints.target_ids = target_.size;
    const Graph* encoder = encoder_.has_value() ? &*encoder_ : nullptr;
    absl::StatusOr<ops::DecoderRoles> roles =
        ops::GuessDecoderRoles(decoder, encoder, hints, reasons_);
    if (!roles.ok()) {
      return Annotate(roles.status(), absl::StrCat("'", options_.decoder, "'"));
    }
    *config_.mutable_decoder() = DecoderConfigOf(graph, *roles);
    BW_RETURN_IF_ERROR(CheckTargetSize(*roles, target_));
    if (target_.config.vocabulary().empty()) {
      target_.size = roles->target_ids;
    }
    BW_RETURN_IF_ERROR(CheckSpecialTokens(target_));
    Print("guess   ", reasons_);
    if (!options_.replay.empty()) {
      BW_RETURN_IF_ERROR(ReplayDecoder(decoder, options_.replay, output_));
    }
    BW_RETURN_IF_ERROR(Write());
    Print("note    ", FixedExtents(encoder, *config_.mutable_encoder(), decoder, *roles));
    BW_RETURN_IF_ERROR(Frame());
    return Try(decoder);
  }

 private:
  absl::Status ReadEncoder() {
    if (options_.encoder.empty()) {
      if (!options_.source_vocab.empty()) {
        return Invalid("--source-vocab: without an encoder no source text can be read");
      }
      return absl::OkStatus();
    }
    std::string graph;
    BW_ASSIGN_OR_RETURN(encoder_, TakeGraph(options_.encoder, "encoder", files_, graph));
    absl::StatusOr<ops::EncoderRoles> roles = ops::GuessEncoderRoles(*encoder_, reasons_);
    if (!roles.ok()) {
      return Annotate(roles.status(), absl::StrCat("'", options_.encoder, "'"));
    }
    if (options_.length_axis > 0) {
      roles->length_axis = options_.length_axis;
    }
    if (roles->length_axis == 0) {
      return Invalid("'", options_.encoder, "': '", roles->input,
                     "' leaves open which axis counts as the source's length; say which with "
                     "--length-axis (a picture [rows, channels, height, width] is usually read "
                     "along axis 3)");
    }
    *config_.mutable_encoder() = EncoderConfigOf(graph, *roles);
    source_.size = roles->source_ids;
    if (!options_.source_vocab.empty()) {
      BW_ASSIGN_OR_RETURN(source_, TakeText("source", options_.source_vocab,
                                            SourceTokens(options_.special), files_, reasons_));
    }
    const int64_t rows = roles->source_ids;
    if (rows >= 0 && source_.size > rows) {
      return Invalid("the source vocabulary has ", source_.size,
                     " tokens, but the encoder's table only ", rows, " rows");
    }
    return absl::OkStatus();
  }

  absl::Status ReadTarget() {
    if (!options_.target_vocab.empty()) {
      BW_ASSIGN_OR_RETURN(
          target_, TakeText("target", options_.target_vocab, options_.special, files_, reasons_));
      return absl::OkStatus();
    }
    target_.config.set_begin_token(options_.special.begin);
    target_.config.mutable_end_tokens()->Assign(options_.special.ends.begin(),
                                                options_.special.ends.end());
    return absl::OkStatus();
  }

  void Print(const char* label, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      output_ << label << Printable(line) << "\n";
    }
  }

  absl::Status ReadPairs() {
    if (options_.pairs.empty()) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(options_.pairs));
    absl::StatusOr<std::vector<KnownPair>> pairs = ParsePairs(content);
    if (!pairs.ok()) {
      return Annotate(pairs.status(), absl::StrCat("--pairs '", options_.pairs, "'"));
    }
    pairs_ = *std::move(pairs);
    return absl::OkStatus();
  }

  absl::Status Write() {
    *config_.mutable_source() = SizedConfig(source_);
    *config_.mutable_target() = SizedConfig(target_);
    files_[kConfigFile] = FormatBundle(config_, reasons_);
    BW_RETURN_IF_ERROR(WriteFiles(options_.out, files_));
    for (const auto& [name, content] : files_) {
      output_ << "wrote   " << Printable((fs::path(options_.out) / name).string()) << "\n";
    }
    return absl::OkStatus();
  }

  // Which special tokens stand around texts: found by known pairs, or said to be unknown.
  absl::Status Frame() {
    if (!OpenQuestions(config_).empty() || !config_.has_encoder()) {
      return pairs_.empty() ? absl::OkStatus()
                            : Invalid("--pairs: needs an encoder and a bundle that is complete");
    }
    const absl::StatusOr<model::Bundle> bundle = model::LoadBundle(options_.out);
    if (!bundle.ok()) {
      return absl::OkStatus();  // Try says so
    }
    FramingChoices choices = UsualFramings(*bundle);
    Keep(options_.special.source_begin, choices.source_begins);
    Keep(options_.special.source_end, choices.source_ends);
    if (!options_.special.begin.empty()) {
      choices.target_begins = {options_.special.begin};
    }
    if (pairs_.empty()) {
      Print("unknown ", UnknownFraming(choices));
      return absl::OkStatus();
    }
    const absl::StatusOr<FramingFound> found =
        FindFraming(*bundle, files_[config_.source().vocabulary()],
                    files_[config_.target().vocabulary()], choices, pairs_);
    if (!found.ok()) {
      return Annotate(
          found.status(),
          absl::StrCat("'", options_.out, "' is written without what pairs tell: --pairs '",
                       options_.pairs, "'"));
    }
    Print("pairs   ", found->evidence);
    SetFraming(found->framing, config_);
    reasons_.push_back(
        absl::StrCat(ToString(found->framing), ": by ", pairs_.size(), " known pairs"));
    output_ << "guess   " << Printable(reasons_.back()) << "\n";
    files_[kConfigFile] = FormatBundle(config_, reasons_);
    return WriteFiles(options_.out, {{kConfigFile, files_[kConfigFile]}});
  }

  // As the server does, before anybody is told to serve it.
  absl::Status Try(const Graph& decoder) {
    const std::string serve =
        absl::StrCat("beamwright-server --model-path ", Printable(options_.out), "\n");
    if (const std::vector<std::string> questions = OpenQuestions(config_); !questions.empty()) {
      Print("missing ", questions);
      output_ << "then serve it: " << serve;
      return absl::OkStatus();
    }
    const auto model = TryBundle(options_.out, "");
    if (!model.ok()) {
      const std::string perhaps = ops::FrozenReshape(decoder);
      return absl::FailedPreconditionError(absl::StrCat(
          "'", options_.out, "' is written, but a server refuses it: ", model.status().message(),
          perhaps.empty() ? "" : "; perhaps because ", perhaps));
    }
    output_ << "tried   it loads, and decodes a made-up source\n";
    Print("found   ", FactsOf(**model));
    output_ << "serve it: " << serve;
    return absl::OkStatus();
  }

  const InitOptions& options_;
  std::ostream& output_;
  v1::ModelConfig config_;
  std::vector<std::string> reasons_;
  TextSide source_;
  TextSide target_;
  Files files_;
  std::optional<Graph> encoder_;
  std::vector<KnownPair> pairs_;
};

}  // namespace

absl::Status InitBundle(const InitOptions& options, std::ostream& output) {
  return Initialiser(options, output).Run();
}

}  // namespace beamwright::tools
