// Compiles the parts of a model that is searched by frames: CTC (CompileCtc), a tagger
// (CompileTags) or a transducer (CompileTransducer). CompileFrames takes the bundle and the parts
// that are compiled already (encoder, vocabulary) and returns a FramesPart: the kind of search, the
// columns of a frame's scores, which of them is the blank, and the graphs or the output of the
// encoder that give them.
//
// 1. Where the scores or frames come from: an output of the encoder (FindCtcOutput, FindTagOutput,
//    FindEncoderFrames), or the request, if the model has no encoder.
// 2. SetTokens: how many columns there are and which are tokens. The graph, the vocabulary and the
//    place of the blank must agree: the blank is one of the tokens or the column after the last
//    one.
// 3. A tagger's CRF: ReadTransitions reads labels + 2 lines of scores.
// 4. A transducer's predictor and joiner become steps over rows (ops::CompileTransducer).
// 5. If the encoder is run chunk by chunk, how many frames a chunk gives (FramesOfChunk).
//
// The front end of an encoder that reads pictures (CompilePicture) comes last.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/model/compile_graphs.h"
#include "engine/model/compile_streaming.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/decoder/decoder_form.h"

namespace beamwright::engine {
namespace {

// Which columns of a frame are tokens, given how many columns there are (-1: the graph leaves that
// open) and the target vocabulary. what: whose columns, "ctc".
absl::Status SetTokens(const char* what, int64_t columns, int vocabulary, FramesPart& frames) {
  if (columns < 0 && vocabulary == 0) {
    return Invalid("target.size: is not set, and no graph states the number of target tokens");
  }
  if (columns < 0) {
    columns = std::max(vocabulary, frames.blank + 1);
  }
  if (frames.blank >= columns) {
    return Invalid(what, ".blank: ", frames.blank, " is outside [0, ", columns, "), the columns");
  }
  // Without a vocabulary every column is a token; a blank that is the last one stands behind them.
  const int64_t tokens = vocabulary > 0                ? vocabulary
                         : frames.blank == columns - 1 ? columns - 1
                                                       : columns;
  if (columns != tokens && !(columns == tokens + 1 && frames.blank == tokens)) {
    return Invalid("the target vocabulary has ", tokens, " tokens, and there are ", columns,
                   " columns with the blank in column ", frames.blank,
                   "; the blank must be one of the tokens, or the column behind the last one");
  }
  frames.num_tokens = static_cast<int>(tokens);
  frames.num_columns = static_cast<int>(columns);
  return absl::OkStatus();
}

absl::Status CompileCtc(const v1::CtcConfig& config, const DecodeModel::Parts& parts,
                        FramesPart& frames) {
  frames.blank = config.blank();
  CtcOutput ctc;
  if (parts.encoder() != nullptr) {
    BW_ASSIGN_OR_RETURN(ctc, FindCtcOutput(config, *parts.encoder()));
  } else {
    ctc.blank = config.blank();
    ctc.kind = KindOf(config.kind());
  }
  BW_RETURN_IF_ERROR(SetTokens("ctc", ctc.columns, parts.target->size(), frames));
  ctc.columns = frames.num_columns;
  frames.frame_width = frames.num_columns;
  frames.ctc = ctc;
  return absl::OkStatus();
}

// Bound of a CRF's labels: every pass over a source takes labels^2 operations a position.
constexpr int64_t kMostCrfLabels = 1024;

absl::StatusOr<std::unique_ptr<search::TagTransitions>> ReadTransitions(const std::string& content,
                                                                        int64_t labels) {
  if (labels > kMostCrfLabels) {
    return Invalid("the model has ", labels, " labels; transitions are for ", kMostCrfLabels,
                   " at most");
  }
  std::vector<float> numbers;
  const auto lines = static_cast<size_t>(labels) + 2;
  size_t line = 0;
  for (const absl::string_view text : absl::StrSplit(content, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(text, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) {
      continue;
    }
    if (++line > lines || fields.size() != static_cast<size_t>(labels)) {
      return Invalid("line ", line, " has ", fields.size(), " scores; ", lines, " lines of ",
                     labels,
                     " are needed: at the first position, at the last, and behind each label");
    }
    for (const absl::string_view field : fields) {
      float score = 0;
      if (!absl::SimpleAtof(field, &score) || !(score < std::numeric_limits<float>::infinity())) {
        return Invalid("line ", line, ": '", field, "' is no score, a number below infinity");
      }
      numbers.push_back(score);
    }
  }
  if (line < lines) {
    return Invalid("has ", line, " lines; ", lines, " of ", labels,
                   " scores are needed: at the first position, at the last, and behind each label");
  }
  auto transitions = std::make_unique<search::TagTransitions>();
  transitions->first.assign(numbers.begin(), numbers.begin() + labels);
  transitions->last.assign(numbers.begin() + labels, numbers.begin() + 2 * labels);
  transitions->between.assign(numbers.begin() + 2 * labels, numbers.end());
  return transitions;
}

absl::Status CompileTags(const bundle::Bundle& bundle, const DecodeModel::Parts& parts,
                         FramesPart& frames) {
  const v1::TagsConfig& config = bundle.config.tags();
  frames.kind = search::FrameKind::kTags;
  frames.blank = -1;
  BW_ASSIGN_OR_RETURN(CtcOutput tags, FindTagOutput(config, *parts.encoder()));
  const int vocabulary = parts.target->size();
  if (tags.columns < 0 && vocabulary == 0) {
    return Invalid("target.size: is not set, and no graph states the number of labels");
  }
  if (tags.columns < 0) {
    tags.columns = vocabulary;
  }
  if (vocabulary > 0 && vocabulary != tags.columns) {
    return Invalid("tags: the target vocabulary has ", vocabulary,
                   " labels, the encoder's output has ", tags.columns);
  }
  frames.num_tokens = frames.num_columns = static_cast<int>(tags.columns);
  frames.frame_width = tags.columns;
  frames.ctc = tags;
  if (!config.transitions().empty()) {
    auto transitions = ReadTransitions(bundle.transitions, tags.columns);
    if (!transitions.ok()) {
      return Annotate(transitions.status(), config.transitions());
    }
    frames.transitions = *std::move(transitions);
  }
  return absl::OkStatus();
}

// The encoder's result with its frames, and the width of one; -1: not known.
absl::Status FindEncoderFrames(const v1::TransducerConfig& config, const EncoderPart& encoder,
                               TransducerPart& part, int64_t& width) {
  const ops::Graph& graph = encoder.model->graph();
  const auto may_be = [&](int result) {
    if (encoder.streaming.has_value() && encoder.streaming->writes_state(result)) {
      return false;
    }
    const ops::ValueInfo& info = ops::InfoOfResult(graph, result);
    return info.dtype == ops::DType::kF32 && (!info.shape.has_rank() || info.shape.rank() == 3);
  };
  std::vector<int> found;
  for (int i = 0; i < static_cast<int>(graph.results.size()); ++i) {
    if (may_be(i)) {
      found.push_back(i);
    }
  }
  if (config.encoder_output().empty() && found.size() == 1) {
    part.encoder_output = found[0];
  } else {
    BW_ASSIGN_OR_RETURN(part.encoder_output, ops::FindResult(graph, "transducer.encoder_output",
                                                             config.encoder_output(), "encoder"));
  }
  const ops::ValueInfo& info = ops::InfoOfResult(graph, part.encoder_output);
  if (!may_be(part.encoder_output)) {
    return Invalid("transducer.encoder_output: '", config.encoder_output(), "' is ",
                   ops::Name(info.dtype), info.shape.ToString(),
                   "; frames are f32 [rows, frames, width], or [rows, width, frames] with "
                   "frame_axis 2");
  }
  width = info.shape.has_rank() ? info.shape.dim(part.frame_axis == 2 ? 1 : 2) : -1;
  return absl::OkStatus();
}

ops::TransducerPorts PortsOf(const v1::TransducerConfig& config) {
  ops::TransducerPorts ports;
  ports.token_input = config.predictor().token_input();
  ports.length_input = config.predictor().length_input();
  for (const v1::StateConfig& state : config.predictor().states()) {
    ports.states.push_back({state.input(), state.output()});
  }
  ports.predictor_output = config.predictor().output();
  ports.encoder_input = config.joiner().encoder_input();
  ports.predictor_input = config.joiner().predictor_input();
  ports.logits_output = config.joiner().logits_output();
  return ports;
}

absl::Status CompileTransducer(bundle::Bundle& bundle, const DecodeModel::Parts& parts,
                               FramesPart& frames) {
  const v1::TransducerConfig& config = bundle.config.transducer();
  auto part = std::make_unique<TransducerPart>();
  ops::TransducerOptions options;
  part->frame_axis = config.frame_axis() == 0 ? 1 : config.frame_axis();
  if (parts.encoder() != nullptr) {
    BW_RETURN_IF_ERROR(FindEncoderFrames(config, *parts.encoder(), *part, options.frame_width));
  }
  part->blank = config.blank();
  part->start_token =
      config.predictor().has_start_token() ? config.predictor().start_token() : config.blank();
  part->context_start = config.predictor().has_context_start() ? config.predictor().context_start()
                                                               : part->start_token;
  part->context_size = config.context_size();
  for (const v1::StateConfig& state : config.predictor().states()) {
    part->state_constants.push_back(state.constant());
  }
  options.steps = parts.precision.steps;
  options.projection = parts.precision.projection;
  options.score_kind = KindOf(config.joiner().logits_kind());
  options.context_size = config.context_size();
  options.num_tokens =
      parts.target->size() > 0 ? std::max(parts.target->size(), part->start_token + 1) : 0;
  options.width_first = part->frame_axis == 2;
  const bool has_durations = config.kind() == v1::TRANSDUCER_KIND_TOKEN_AND_DURATION;
  options.keeps_scores = has_durations;
  options.token_table_share = parts.options.token_table_share;
  options.context = parts.options.context;
  BW_RETURN_IF_ERROR(
      Annotate(ops::CompileTransducer(*std::move(bundle.predictor), std::move(bundle.joiner),
                                      PortsOf(config), options, part->graphs),
               "transducer"));
  frames.blank = config.blank();
  frames.durations.assign(config.durations().begin(), config.durations().end());
  frames.kind =
      has_durations ? search::FrameKind::kTokenAndDuration : search::FrameKind::kTransducer;
  frames.max_symbols = std::max(config.max_symbols(), 1);
  frames.frame_width = part->graphs.frame_width;
  BW_RETURN_IF_ERROR(SetTokens("transducer", part->graphs.num_columns - config.durations_size(),
                               parts.target->size(), frames));
  part->num_columns = frames.num_columns;
  frames.transducer = std::move(part);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FramesPart>> CompileFrames(bundle::Bundle& bundle,
                                                          const DecodeModel::Parts& parts) {
  auto frames = std::make_unique<FramesPart>();
  BW_RETURN_IF_ERROR(bundle.config.has_ctc()    ? CompileCtc(bundle.config.ctc(), parts, *frames)
                     : bundle.config.has_tags() ? CompileTags(bundle, parts, *frames)
                                                : CompileTransducer(bundle, parts, *frames));
  if (const EncoderPart* const encoder = parts.chunk_encoder(); encoder != nullptr) {
    const bool is_ctc = frames->ctc.has_value();
    const int result = is_ctc ? frames->ctc->result : frames->transducer->encoder_output;
    // Of CTC scores [frames, 1, columns] the first axis counts frames.
    const ops::Shape& shape = encoder->streaming->result_shapes[static_cast<size_t>(result)];
    const bool frames_first = is_ctc && shape.size() == 3 && shape[0] != 1;
    BW_ASSIGN_OR_RETURN(
        frames->chunk_frames,
        FramesOfChunk(*encoder, result,
                      is_ctc ? (frames_first ? 0 : 1) : frames->transducer->frame_axis));
  }
  return frames;
}

// How pictures become the input of an encoder, from the bundle's configuration and the encoder's
// shape. The encoder's source has rows, channels, height and width; which axis is which follows
// from the number of channels (1 or 3) and from the axis of the length (PictureAxes). Extents that
// the encoder fixes fill in what the configuration leaves open, and must agree with what it says.

namespace {

// Sets a field that is 0 to the encoder's extent, which may be open still.
absl::Status SetExtent(const char* field, int64_t extent, int most, int& value) {
  if (extent == ops::PartialShape::kDynamic) {
    return absl::OkStatus();
  }
  if (value != 0 && value != extent) {
    return status::InvalidField(field, value, "; the encoder reads ", extent);
  }
  if (extent < 1 || extent > most) {
    return status::InvalidField(field, "the encoder reads ", extent, "; at most ", most,
                                " are supported");
  }
  value = static_cast<int>(extent);
  return absl::OkStatus();
}

absl::StatusOr<picture::FrontEnd> FrontEndOf(const v1::PictureConfig& config,
                                             const EncoderPart& encoder) {
  constexpr int kMostHeight = 4096;
  constexpr int kMostWidth = 65500;
  constexpr int kMostChannels = 3;
  const ops::ValueInfo& info = encoder.source_info();
  if (info.dtype != ops::DType::kF32 || !info.shape.has_rank() || info.shape.rank() != 4) {
    return Invalid("the encoder reads ", ops::Name(info.dtype), info.shape.ToString(),
                   "; pictures are f32 of four axes: rows, channels, height and width");
  }
  const picture::Axes axes =
      picture::PictureAxes(info.shape, config.channels(), encoder.length_axis);
  int channels = config.channels();
  int height = config.height();
  int width = config.width();
  BW_RETURN_IF_ERROR(SetExtent("channels", info.shape.dim(axes.channels), kMostChannels, channels));
  BW_RETURN_IF_ERROR(SetExtent("height", info.shape.dim(axes.height), kMostHeight, height));
  BW_RETURN_IF_ERROR(SetExtent("width", info.shape.dim(axes.width), kMostWidth, width));
  if (channels == 0 || height == 0) {
    return status::InvalidField(
        channels == 0 ? "channels" : "height",
        "is not set, and the encoder leaves it open: ", info.shape.ToString());
  }
  v1::PictureConfig complete = config;
  complete.set_channels(channels);
  complete.set_height(height);
  complete.set_width(width);
  return picture::FrontEnd::Create(complete, axes);
}

}  // namespace

absl::StatusOr<std::optional<picture::FrontEnd>> CompilePicture(const v1::ModelConfig& config,
                                                                const EncoderPart* encoder) {
  if (!config.has_picture()) {
    return std::nullopt;
  }
  if (encoder == nullptr || encoder->streaming.has_value()) {
    return status::InvalidField("picture", encoder == nullptr
                                               ? "the model has no encoder to read pictures"
                                               : "the encoder reads chunk by chunk");
  }
  absl::StatusOr<picture::FrontEnd> made = FrontEndOf(config.picture(), *encoder);
  if (!made.ok()) {
    return status::WithFields(made.status(), [](absl::string_view field) {
      return field.empty() ? std::string("picture") : absl::StrCat("picture.", field);
    });
  }
  return std::make_optional(*std::move(made));
}

}  // namespace beamwright::engine
