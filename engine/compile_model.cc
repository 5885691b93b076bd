// DecodeModel::Compile: from a bundle, whose files are read and checked, to a model that engines
// run.
//
// 1. Precision: that of the options or of the bundle; auto tries candidates and compares their
//    answers (auto_precision.cc).
// 2. Limits of the options are put over those of the bundle (Tighten), and token lists are read.
// 3. CompileOwn: encoder, front ends for sound or pictures, activity model, and either the parts of
//    a search by frames or the decoder's step.
// 4. CompileFusion: further decoders and scorers of the bundle.
// 5. What follows from the graphs: the least length of a source and the most steps of a decoder. At
//    last the default options are checked against the model.
//
// An error names the file or the field of the bundle that it comes from.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "beamwright/v1/model.pb.h"
#include "engine/auto_precision.h"
#include "engine/beam/beam_search_kind.h"
#include "engine/bundle/text_codec.h"
#include "engine/frames/frame_search_kind.h"
#include "engine/model/compile_graphs.h"
#include "engine/model/decode_model.h"
#include "engine/model/model_inputs.h"
#include "engine/model/parts.h"
#include "engine/options/decode_options.h"
#include "engine/request/request.h"
#include "engine/search/tries.h"
#include "engine/sound/front_end.h"
#include "engine/status/fault.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"
#include "ops/graph/trace.h"

namespace beamwright::engine {
namespace {

// Token lists: files of a bundle whose lines are the only answers that a request may allow.

// content: a target text a line; the last newline may be missing. end_tokens: what closes an entry:
// the target's, or the blank of a model that is searched by frames. InvalidArgument naming the
// line: it is empty, or has a token that the vocabulary lacks, or the blank. Lines that say the
// same count once.
absl::StatusOr<std::shared_ptr<const search::TokenTrie>> ReadTokenList(
    const std::string& content, const bundle::TextCodec& target,
    const std::vector<int32_t>& end_tokens) {
  std::vector<search::TokenSequence> entries;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(content, "\n"), '\n')) {
    absl::StatusOr<std::vector<int32_t>> tokens = target.EncodePart(line);
    if (!tokens.ok()) {
      return status::AtField(tokens.status(), absl::StrCat("line ", entries.size() + 1));
    }
    if (const auto end = absl::c_find_first_of(*tokens, end_tokens); end != tokens->end()) {
      return Invalid("line ", entries.size() + 1, ": token ", *end, " is the blank");
    }
    entries.push_back(*std::move(tokens));
  }
  return std::make_shared<const search::TokenTrie>(std::move(entries), end_tokens);
}

// How sound becomes what a model's encoder reads.

// Whether the encoder's source can have the front end's shape: f32 [1, frames, width], [1, width,
// frames] or [1, samples].
bool Fits(const sound::FrontEnd& sound, const EncoderPart& encoder) {
  if (encoder.streaming.has_value()) {
    return encoder.streaming->width == sound.width() && !sound.is_samples();
  }
  const ops::ValueInfo& info = encoder.source_info();
  const int rank = sound.is_samples() ? 2 : 3;
  if (info.dtype != ops::DType::kF32 || !info.shape.has_rank() || info.shape.rank() != rank ||
      encoder.length_axis >= rank) {
    return false;
  }
  const int64_t width = rank == 2 ? sound.width() : info.shape.dim(3 - encoder.length_axis);
  return width == ops::PartialShape::kDynamic || width == sound.width();
}

// Frames that the encoder makes of a source of zeros, of `length` positions; -1: it fails.
int64_t FramesOf(const DecodeModel::Parts& parts, int64_t length) {
  const EncoderPart& encoder = *parts.encoder();
  const int64_t width = parts.sound->width();
  const ops::Shape shape = parts.sound->is_samples()  ? ops::Shape{1, length}
                           : encoder.length_axis == 1 ? ops::Shape{1, length, width}
                                                      : ops::Shape{1, width, length};
  std::vector<ops::Tensor> further;
  for (const FurtherInput& input : encoder.further_inputs) {
    absl::StatusOr<ops::Tensor> constant = ConstantInput(encoder, input, length);
    if (!input.has_constant || !constant.ok()) {
      return -1;
    }
    further.push_back(*std::move(constant));
  }
  const auto inputs = EncoderInputs(encoder, ops::Tensor::Zeros(ops::DType::kF32, shape), further);
  std::vector<ops::Tensor> outputs;
  if (!encoder.source_info().shape.Accepts(shape) || !inputs.ok() ||
      !encoder.model->Run(parts.options.context, *inputs, outputs).ok()) {
    return -1;
  }
  const FramesPart& frames = *parts.frames;
  const bool is_ctc = frames.ctc.has_value();
  const ops::Tensor& result =
      outputs[static_cast<size_t>(is_ctc ? frames.ctc->result : frames.transducer->encoder_output)];
  // Of CTC scores [frames, 1, columns] the first axis counts frames.
  const bool is_first = is_ctc && (result.rank() < 3 || result.dim(0) != 1);
  const int axis = is_ctc ? (is_first ? 0 : 1) : frames.transducer->frame_axis;
  return axis < result.rank() ? result.dim(axis) : -1;
}

// Milliseconds of sound to a frame of the search: by what the encoder leaves of a chunk, or of two
// silent sources. 0: not clear. After CompileFrames.
float FrameMsOf(const DecodeModel::Parts& parts) {
  const double own = parts.sound->frame_ms();
  if (parts.chunk_encoder() != nullptr) {
    // A run advances by `shift` features and gives chunk_frames frames.
    return static_cast<float>(own * static_cast<double>(parts.encoder()->streaming->shift) /
                              static_cast<double>(parts.frames->chunk_frames));
  }
  // Encoders leave one frame of 1, 2, 3, 4, 6 or 8, of samples one of 320.
  const int64_t step = parts.sound->is_samples() ? 96 * 160 : 96;
  const int64_t once = FramesOf(parts, step);
  const int64_t twice = once < 0 ? -1 : FramesOf(parts, 2 * step);
  if (once >= twice || step % (twice - once) != 0) {
    return 0;
  }
  return static_cast<float>(own * static_cast<double>(step / (twice - once)));
}

// The features that the bundle's `sound` asks for. Null without it. InvalidArgument naming the
// field that is wrong, or if the encoder does not read such features.
// cmvn: the content of the file that it names.
absl::StatusOr<std::shared_ptr<const sound::FrontEnd>> CompileSound(const v1::ModelConfig& config,
                                                                    const std::string& cmvn,
                                                                    const EncoderPart* encoder) {
  if (!config.has_sound()) {
    return nullptr;
  }
  if (encoder == nullptr) {
    return status::InvalidField("sound", "the model has no encoder to read features of sound");
  }
  sound::Cmvn parsed;
  if (!config.sound().cmvn().empty()) {
    absl::StatusOr<sound::Cmvn> read = sound::ParseCmvn(cmvn);
    if (!read.ok()) {
      return status::InvalidField("sound.cmvn", "'", config.sound().cmvn(), "' ",
                                  read.status().message());
    }
    parsed = *std::move(read);
  }
  auto made = sound::FrontEnd::Create(config.sound(), std::move(parsed));
  if (!made.ok()) {
    return Annotate(made.status(), "sound");
  }
  const sound::FrontEnd& sound = **made;
  const ops::ValueInfo& info = encoder->source_info();
  if (!Fits(sound, *encoder)) {
    const std::string shape = sound.is_samples() ? "[1, samples]"
                              : encoder->length_axis == 2
                                  ? absl::StrCat("[1, ", sound.width(), ", frames]")
                                  : absl::StrCat("[1, frames, ", sound.width(), "]");
    return status::InvalidField("sound", "the encoder reads ", ops::Name(info.dtype),
                                info.shape.ToString(), "; features of sound are f32 ", shape);
  }
  if (encoder->streaming.has_value() && sound.needs_whole_source()) {
    return status::InvalidField(
        "sound",
        "the encoder reads chunk by chunk, but these features need the whole source (normalize, "
        "pad_ms, stack, cmvn, or a limit below the loudest)");
  }
  return *std::move(made);
}

// Searches by tokens begin with a token and end with one.
absl::Status CheckTarget(const DecodeModel::Parts& parts) {
  if (bundle::SearchOf(parts.config) != v1::SEARCH_TOKENS) {
    return absl::OkStatus();
  }
  if (parts.target->begin_id() < 0) {
    return Invalid("target.begin_token: the first step needs a token to read");
  }
  if (parts.target->end_ids().empty()) {
    return Invalid("target.end_tokens: at least one token must end a hypothesis");
  }
  return absl::OkStatus();
}

// The lower of both limits; 0 is no limit.
void Tighten(const CompileOptions& options, v1::LimitsConfig& limits) {
  const auto lower = [](int own, int other) {
    return own == 0 || other == 0 ? std::max(own, other) : std::min(own, other);
  };
  limits.set_max_source_length(lower(limits.max_source_length(), options.max_source_length));
  limits.set_max_target_length(lower(limits.max_target_length(), options.max_target_length));
  limits.set_max_beam_size(lower(limits.max_beam_size(), options.max_beam_size));
}

// Descriptions show the shortest source that the encoders can read.
void SetLeastLength(DecodeModel::Parts& parts) {
  int64_t least = parts.encoder() == nullptr ? 1 : parts.encoder()->least_length;
  for (int member = 1; member < parts.num_members(); ++member) {
    const EncoderPart* const encoder = parts.encoder_of(member);
    least = encoder == nullptr ? least : std::max(least, encoder->least_length);
  }
  v1::LimitsConfig& limits = *parts.config.mutable_limits();
  if (least > 1 && least > limits.min_source_length()) {
    limits.set_min_source_length(static_cast<int32_t>(least));
  }
}

// No request asks for more steps than the decoders take.
void LimitSteps(DecodeModel::Parts& parts) {
  v1::LimitsConfig& limits = *parts.config.mutable_limits();
  for (const auto& decoder : parts.decoders) {
    const int own = limits.max_target_length();
    if (decoder->most_steps > 0 && (own == 0 || decoder->most_steps < own)) {
      limits.set_max_target_length(decoder->most_steps);
    }
  }
}

// Of a bundle whose graphs are all there.
int64_t WeightBytes(const bundle::Bundle& bundle, const PartPrecisions& precision) {
  const auto bytes = [](const ops::Graph& graph, Precision kept) {
    const int64_t each = kept == Precision::kF32 ? 4 : kept == Precision::kInt8 ? 1 : 2;
    return ops::CountWeights(graph) * each;
  };
  int64_t sum = bytes(bundle.decoder, precision.steps);
  sum += bundle.encoder.has_value() ? bytes(*bundle.encoder, precision.encoder) : 0;
  sum += bundle.predictor.has_value() ? bytes(*bundle.predictor, precision.steps) : 0;
  sum += bundle.joiner.has_value() ? bytes(*bundle.joiner, precision.steps) : 0;
  for (const bundle::Bundle::Member& member : bundle.members) {
    sum += bytes(member.decoder, precision.steps);
    sum += member.encoder.has_value() ? bytes(*member.encoder, precision.encoder) : 0;
  }
  for (const auto& [name, graph] : bundle.language_models) {
    sum += bytes(graph, precision.steps);
  }
  return sum;
}

// Whether a row's states are all that steps know of the tokens before, and have a fixed size.
bool HasPortableStates(const DecoderPart& decoder) {
  const ops::LoopBody& body = *decoder.body;
  const ops::Loop& loop = body.loop();
  return !body.counts_steps() && body.num_states() > 0 &&
         absl::c_all_of(decoder.inputs,
                        [](const DecoderInput& input) {
                          return input.has_constant && input.constant_tensor.has_value();
                        }) &&
         absl::c_all_of(body.carried(), [&](int rule) {
           const int parameter = loop.inputs[static_cast<size_t>(rule)].body_parameter;
           const ops::PartialShape& shape =
               loop.body.node(loop.body.parameters[static_cast<size_t>(parameter)])
                   .outputs[0]
                   .shape;
           return shape.has_rank() && shape.rank() > 0 &&
                  std::all_of(shape.dims().begin() + 1, shape.dims().end(),
                              [](int64_t extent) { return extent >= 0; });
         });
}

// The model's own encoder, where it has one, and decoder, or what it has in its place.
absl::Status CompileOwn(bundle::Bundle& bundle, DecodeModel::Parts& parts) {
  if (bundle.encoder.has_value()) {
    const v1::EncoderConfig& config = bundle.config.encoder();
    auto compiled = CompileEncoder(*std::move(bundle.encoder), config, parts);
    if (!compiled.ok()) {
      return Annotate(compiled.status(), config.graph());
    }
    parts.own_encoder = *std::move(compiled);
  }
  BW_ASSIGN_OR_RETURN(parts.sound, CompileSound(bundle.config, bundle.cmvn, parts.encoder()));
  if (bundle.activity.has_value()) {
    if (parts.sound == nullptr || parts.chunk_encoder() != nullptr) {
      return status::InvalidField("sound.activity",
                                  "is for encoders that read whole sources of sound");
    }
    auto activity = ActivityModel::Create(parts.options.context, *std::move(bundle.activity));
    if (!activity.ok()) {
      return status::InvalidField("sound.activity", "'", bundle.config.sound().activity(), "' ",
                                  activity.status().message());
    }
    parts.activity = *std::move(activity);
  }
  BW_ASSIGN_OR_RETURN(parts.picture, CompilePicture(bundle.config, parts.encoder()));
  if (bundle::SearchOf(bundle.config) != v1::SEARCH_TOKENS) {
    BW_ASSIGN_OR_RETURN(parts.frames, CompileFrames(bundle, parts));
    if (parts.config.frame_ms() == 0 && parts.sound != nullptr) {
      parts.config.set_frame_ms(FrameMsOf(parts));
    }
    return absl::OkStatus();
  }
  const v1::DecoderConfig& config = bundle.config.decoder();
  const bool is_alone = !bundle.encoder.has_value() && bundle.members.empty();
  if (is_alone) {
    parts.fingerprint = Fingerprint(bundle.decoder, config, *parts.target);
  }
  auto decoder = CompileDecoder(std::move(bundle.decoder), config, parts, parts.own_encoder);
  if (!decoder.ok()) {
    return Annotate(decoder.status(), config.graph());
  }
  parts.has_portable_states = is_alone && HasPortableStates(**decoder);
  parts.decoders.push_back(*std::move(decoder));
  return absl::OkStatus();
}

}  // namespace

// Here and not with the rest of DecodeModel: only where everything comes together are drivers
// known.
DecodeModel::DecodeModel(std::unique_ptr<const Parts> parts)
    : parts_(std::move(parts)), parked_drivers_(std::make_unique<ParkedDrivers>()) {}
DecodeModel::~DecodeModel() = default;

absl::StatusOr<std::shared_ptr<const DecodeModel>> DecodeModel::Compile(
    bundle::Bundle bundle, const CompileOptions& options) {
  if (!options.precision.has_value()) {
    BW_RETURN_IF_ERROR(CheckAskedPrecision(bundle.config.precision()));
  }
  const v1::Precision precision = options.precision.value_or(bundle.config.precision());
  if (precision == v1::PRECISION_AUTO) {
    return CompileAuto(std::move(bundle), options);
  }
  auto parts = std::make_unique<Parts>();
  parts->name = bundle.name;
  parts->version = bundle.version;
  parts->config = bundle.config;
  Tighten(options, *parts->config.mutable_limits());
  parts->options = options;
  if (options.search == nullptr) {
    static const BeamSearchKind kBeamSearch;
    static const FrameSearchKind kFrameSearch;
    const bool by_frames = bundle::SearchOf(bundle.config) != v1::SEARCH_TOKENS;
    parts->options.search =
        by_frames ? static_cast<const SearchKind*>(&kFrameSearch) : &kBeamSearch;
  }
  parts->source = bundle.source;
  parts->target = bundle.target;
  BW_ASSIGN_OR_RETURN(parts->precision, ResolvePrecision(precision));
  parts->weight_bytes = WeightBytes(bundle, parts->precision);
  parts->numerics =
      absl::StrCat(parts->precision.name, ";", InstructionSet(), ";", BEAMWRIGHT_NUMERICS_BUILD);
  BW_RETURN_IF_ERROR(CheckTarget(*parts));
  // What ends an entry of a list: where there are no end tokens, the blank.
  const std::vector<int32_t> ends =
      bundle.config.has_ctc()          ? std::vector{bundle.config.ctc().blank()}
      : bundle.config.has_transducer() ? std::vector{bundle.config.transducer().blank()}
                                       : parts->target->end_ids();
  for (const v1::TokenListConfig& list : bundle.config.token_lists()) {
    auto trie = ReadTokenList(bundle.token_lists[list.name()], *parts->target, ends);
    if (!trie.ok()) {
      return Annotate(trie.status(), list.file());
    }
    parts->token_lists[list.name()] = *std::move(trie);
  }
  BW_RETURN_IF_ERROR(CompileOwn(bundle, *parts));
  BW_RETURN_IF_ERROR(CompileFusion(bundle, *parts));
  SetLeastLength(*parts);
  LimitSteps(*parts);
  parts->options.context = {};
  std::shared_ptr<const DecodeModel> model(new DecodeModel(std::move(parts)));
  BW_RETURN_IF_ERROR(CheckDefaultOptions(*model));
  return model;
}

}  // namespace beamwright::engine
