// `beamwright-graph init` for models with a decoder; models that are searched by frames go to
// init_frames.cc, Marian's to init_marian.cc (InitBundle decides). Run:
//
// 1. Settings of the export's own files, if they are there: config.json and the like of
//    transformers (TakeExportSettings), or those of Canary.
// 2. ReadEncoder: reads the encoder's graph, guesses its ports, and how sound or pictures are
//    prepared for it.
// 3. The decoder's graph. A merged decoder of optimum (one graph with a branch for the first step)
//    is split, and the branch of later steps is taken. Where the decoder reads keys and values of
//    the source that the encoder does not give, the graph of the first step is joined to the
//    encoder (FindCrossMemory).
// 4. ReadTarget and GuessDecoderRoles: the vocabulary, the token input, the logits, the states and
//    their starts.
// 5. Write: model.textproto with the reasons for each guess as comments, and the files.
// 6. Frame: whether sources and targets were framed by special tokens in training is not in the
//    graphs. Known pairs show it (FindFraming scores each framing by the probability of the known
//    targets); without pairs `init` says that it is unknown.
// 7. Try: loads the written bundle as the server does and decodes a made-up source.
//
// Every guess is printed with its reason ("guess"), what could not be known as "unknown", what the
// user has to fill in as "missing".
#include "tools/bundle/init.h"

#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"
#include "ops/decoder/split_projection.h"
#include "tools/bundle/bundle_folder.h"
#include "tools/bundle/check.h"
#include "tools/bundle/encoder_input.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/text_side.h"
#include "tools/graph/run.h"

namespace beamwright::tools {
namespace {

using ops::Graph;

absl::Status CheckTargetSize(const ops::DecoderRoles& roles, const TextSide& target) {
  if (roles.target_ids < 0 || target.size < 0 || roles.target_ids == target.size ||
      ops::ArePadded(roles.target_ids, target.size)) {
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

// Replaces the choices by the value of a flag, if it was given.
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
          " '' for none, or give --pairs FILE with known sources and targets, which show it"));
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
    BW_RETURN_IF_ERROR(CheckName(options_.name, options_.out));
    BW_RETURN_IF_ERROR(CheckFlags());
    BW_RETURN_IF_ERROR(ReadPairs());
    const bool is_canary = IsCanary(options_);
    if (is_canary) {
      BW_ASSIGN_OR_RETURN(settings_, TakeCanarySettings(options_));
    } else {
      BW_ASSIGN_OR_RETURN(settings_, TakeExportSettings(options_));
    }
    config_.set_format_version(1);
    config_.set_name(options_.name);
    BW_RETURN_IF_ERROR(ReadEncoder());
    std::string graph;  // its name in the bundle
    BW_ASSIGN_OR_RETURN(Graph decoder, TakeGraph(options_.decoder, "decoder", files_, graph));
    const std::optional<MergedDecoder> merged = SplitMerged(files_[graph]);
    if (merged.has_value()) {
      BW_ASSIGN_OR_RETURN(decoder, TakeChangedGraph(options_.decoder, graph, merged->step, files_));
      reasons_.push_back("the decoder's step: the branch of 'use_cache_branch'");
    }
    if (is_canary) {
      absl::StatusOr<std::string> step = CanaryStep(files_[graph]);
      if (!step.ok()) {
        return Annotate(step.status(), absl::StrCat("'", options_.decoder, "'"));
      }
      BW_ASSIGN_OR_RETURN(decoder,
                          TakeChangedGraph(options_.decoder, graph, *std::move(step), files_));
      reasons_.push_back("the decoder's token and position: two inputs in the bundle's file");
    }
    BW_RETURN_IF_ERROR(FindCrossMemory(decoder, merged));
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
    FewerTokens("target", target_, "scores", roles->target_ids);
    if (target_.config.vocabulary().empty()) {
      target_.size = roles->target_ids;
    }
    BW_RETURN_IF_ERROR(CheckSpecialTokens(target_));
    Print("guess   ", reasons_);
    if (!options_.replay.empty()) {
      BW_RETURN_IF_ERROR(ReplayDecoder(decoder, options_.replay, output_));
    }
    BW_RETURN_IF_ERROR(Write());
    // The server fills sound and pictures up to the extents that the encoder fixes.
    const bool is_filled =
        source_.config.pad_to_length() > 0 ||
        (settings_.has_value() && (settings_->sound.has_value() || settings_->picture.has_value()));
    Print("note    ",
          FixedExtents(encoder, *config_.mutable_encoder(), decoder, *roles, is_filled));
    Print("unknown ", unknown_);
    if (settings_.has_value()) {
      Print("unknown ", settings_->unknown);
    }
    if (const absl::Status framed = Frame(); !framed.ok()) {
      RemoveBundle(options_.out);
      return framed;
    }
    return Try(decoder);
  }

 private:
  // With `--decoder`, options of models that are searched by frames may be here.
  absl::Status CheckFlags() const {
    const char* const flag = !options_.blank.empty()         ? "--blank"
                             : !options_.durations.empty()   ? "--durations"
                             : !options_.joiner.empty()      ? "a third graph"
                             : !options_.transitions.empty() ? "--transitions"
                                                             : nullptr;
    return flag == nullptr
               ? absl::OkStatus()
               : Invalid(flag, ": is for CTC models, transducers and taggers, not with --decoder");
  }

  absl::Status ReadEncoder() {
    if (options_.encoder.empty()) {
      if (!options_.source_vocab.empty()) {
        return Invalid("--source-vocab: without an encoder no source text can be read");
      }
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(EncoderSide side, TakeEncoder(options_, false, files_, reasons_));
    encoder_ = std::move(side.graph);
    *config_.mutable_encoder() = std::move(side.config);
    source_ = std::move(side.source);
    FewerTokens("source", source_, "rows of the encoder's table", side.source_rows);
    if (settings_.has_value()) {
      TakeSettings();
    }
    if (!config_.has_sound() && !config_.has_picture()) {
      AddSound(
          FindSound(*encoder_, config_.encoder(), MetadataOf(options_.encoder), true, reasons_),
          files_, config_);
      AddPicture(*encoder_, config_, reasons_);
    }
    PadSources();
    return absl::OkStatus();
  }

  // Padded models have more columns than tokens; so has a vocabulary that lacks a token.
  void FewerTokens(absl::string_view side, const TextSide& text, absl::string_view what,
                   int64_t columns) {
    if (!text.config.vocabulary().empty() && text.size >= 0 && text.size < columns) {
      unknown_.push_back(absl::StrCat(
          "whether the ", side, " vocabulary is the model's: it has ", text.size,
          " tokens, and there are ", columns, " ", what,
          ". Padding at the end is right; where a token such as a pad token is missing before "
          "others, each of those has the number of another one, and answers are wrong without an "
          "error"));
    }
  }

  void TakeSettings() {
    if (settings_->sound.has_value()) {
      *config_.mutable_sound() = *settings_->sound;
    }
    if (settings_->picture.has_value()) {
      *config_.mutable_picture() = *settings_->picture;
    }
    *config_.mutable_default_options() = settings_->options;
    reasons_.insert(reasons_.end(), settings_->reasons.begin(), settings_->reasons.end());
  }

  // The keys and values of the source that the decoder reads and the encoder does not give. The
  // graph of the first step computes them; optimum writes it into the same folder, or into the same
  // file.
  absl::Status FindCrossMemory(const Graph& decoder, const std::optional<MergedDecoder>& merged) {
    if (!encoder_.has_value() || !LacksCrossMemory(decoder, *encoder_)) {
      return absl::OkStatus();
    }
    constexpr absl::string_view kFirstStep = "decoder_model.onnx";
    const std::string path =
        absl::StrCat(options_.decoder.substr(0, options_.decoder.rfind('/') + 1), kFirstStep);
    const absl::StatusOr<std::string> first_step =
        merged.has_value() ? absl::StatusOr<std::string>(merged->first_step) : ReadFile(path);
    if (!first_step.ok()) {
      return Invalid("'", options_.decoder,
                     "' reads keys and values of the source, which the "
                     "encoder does not give; '",
                     kFirstStep,
                     "', which computes them, is to lie in "
                     "its folder: ",
                     first_step.status().message());
    }
    const std::string name = config_.encoder().graph();
    absl::StatusOr<std::string> joined = AddCrossMemory(files_[name], *first_step, decoder);
    if (!joined.ok()) {
      return Annotate(joined.status(), absl::StrCat("'", path, "'"));
    }
    BW_ASSIGN_OR_RETURN(encoder_,
                        TakeChangedGraph(options_.encoder, name, *std::move(joined), files_));
    reasons_.push_back(absl::StrCat(
        "keys and values of the source: by ",
        merged.has_value() ? "the decoder's other branch" : absl::StrCat("'", kFirstStep, "'"),
        ", of what the encoder gives; the bundle's encoder has that "
        "part of it"));
    return absl::OkStatus();
  }

  // Where the export fixed how many ids a source has, shorter ones are filled up.
  void PadSources() {
    const int64_t length = FixedLength(*encoder_, config_.encoder());
    if (length > 1 && !source_.config.pad_token().empty() &&
        config_.encoder().length_kind() == v1::LENGTH_INPUT_NONE) {
      source_.config.set_pad_to_length(static_cast<int32_t>(length));
      reasons_.push_back(absl::StrCat("sources are padded to ", length, " tokens with '",
                                      source_.config.pad_token(), "': the export fixed that axis"));
    }
  }

  absl::Status ReadTarget() {
    if (!options_.target_vocab.empty()) {
      BW_ASSIGN_OR_RETURN(target_, TakeText("target", options_.target_vocab, options_.token_ids,
                                            options_.special, files_, reasons_));
      return absl::OkStatus();
    }
    target_.config.set_begin_token(options_.special.begin);
    target_.config.mutable_end_tokens()->Assign(options_.special.ends.begin(),
                                                options_.special.ends.end());
    return absl::OkStatus();
  }

  void Print(const char* label, const std::vector<std::string>& lines) {
    PrintLines(label, lines, output_);
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
    return WriteBundle(options_.out, files_, output_);
  }

  // Which special tokens stand around texts: found by known pairs, or said to be unknown.
  absl::Status Frame() {
    if (!OpenQuestions(config_).empty() || !config_.has_encoder()) {
      return pairs_.empty() ? absl::OkStatus()
                            : Invalid("--pairs: needs an encoder and a bundle that is complete");
    }
    const absl::StatusOr<bundle::Bundle> bundle = bundle::LoadBundle(options_.out);
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
      return Annotate(found.status(), absl::StrCat("'", options_.out, "' is removed: --pairs '",
                                                   options_.pairs, "'"));
    }
    Print("pairs   ", found->evidence);
    const std::string lead = absl::StrFormat(
        "the best leads the next by %.3f nats a token, over %d tokens", found->lead, found->tokens);
    Print("pairs   ", {lead});
    if (!found->is_sure()) {
      Print("unknown ", {absl::StrCat("which framing the model was trained with: ", lead,
                                      ", which may be chance; give more pairs")});
    }
    SetFraming(found->framing, config_);
    reasons_.push_back(
        absl::StrCat(ToString(found->framing), ": by ", pairs_.size(), " known pairs"));
    output_ << "guess   " << Printable(reasons_.back()) << "\n";
    files_[kConfigFile] = FormatBundle(config_, reasons_);
    return WriteFiles(options_.out, {{kConfigFile, files_[kConfigFile]}});
  }

  // Loads and tries the bundle as the server does, before `init` says how to serve it.
  absl::Status Try(const Graph& decoder) {
    const std::string serve =
        absl::StrCat("beamwright-server --model-path ", Printable(options_.out), "\n");
    if (const std::vector<std::string> questions = OpenQuestions(config_); !questions.empty()) {
      Print("missing ", questions);
      output_ << "then serve it: " << serve;
      return absl::OkStatus();
    }
    BW_RETURN_IF_ERROR(TryWritten(options_.out, decoder, output_));
    output_ << "serve it: " << serve;
    return absl::OkStatus();
  }

  InitOptions options_;
  std::ostream& output_;
  std::optional<ExportSettings> settings_;
  v1::ModelConfig config_;
  std::vector<std::string> reasons_;
  std::vector<std::string> unknown_;
  TextSide source_;
  TextSide target_;
  Files files_;
  std::optional<Graph> encoder_;
  std::vector<KnownPair> pairs_;
};

// Refuses WeNet's encoder for streams as sherpa-onnx's script writes it: its ports look like a
// decoder's, and its caller has to compute masks and offsets for each chunk.
absl::Status CheckStreams(const InitOptions& options) {
  const std::string& path = options.encoder.empty() ? options.decoder : options.encoder;
  const ops::Metadata metadata = MetadataOf(path);
  const auto is = [&](const char* key, absl::string_view value) {
    const auto found = metadata.find(key);
    return found != metadata.end() && found->second == value;
  };
  return is("model_type", "wenet_ctc") && is("comment", "streaming")
             ? Invalid("'", path,
                       "': is WeNet's encoder for streams by sherpa-onnx's script, whose caller "
                       "computes masks for each chunk; give encoder.onnx and ctc.onnx of WeNet's "
                       "own exporter (wenet/bin/export_onnx_cpu.py --chunk_size 16 "
                       "--num_decoding_left_chunks 4)")
             : absl::OkStatus();
}

}  // namespace

absl::Status InitBundle(const InitOptions& options, std::ostream& output) {
  if (IsMarianModel(options)) {
    return InitMarianBundle(options, output);
  }
  if (!options.shortlist.empty()) {
    return Invalid("--shortlist: is for Marian models, which are one .bin or .npz file");
  }
  if (!options.token_ids.empty() && SearchesByFrames(options)) {
    return Invalid("--token-ids: is for models of OPUS-MT, which translate");
  }
  BW_RETURN_IF_ERROR(CheckStreams(options));
  return SearchesByFrames(options) ? InitFrameBundle(options, output)
                                   : Initialiser(options, output).Run();
}

}  // namespace beamwright::tools
