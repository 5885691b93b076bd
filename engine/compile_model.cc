// DecodeModel::Compile: from a bundle to a model.
#include <algorithm>
#include <utility>

#include "engine/auto_precision.h"
#include "engine/beam/beam_search_kind.h"
#include "engine/frames/frame_search_kind.h"
#include "engine/model/compile_frames.h"
#include "engine/model/compile_fusion.h"
#include "engine/model/compile_graphs.h"
#include "engine/model/compile_picture.h"
#include "engine/model/compile_sound.h"
#include "engine/model/decode_model.h"
#include "engine/model/parts.h"
#include "engine/model/token_lists.h"
#include "engine/options/decode_options.h"
#include "engine/request/parked_drivers.h"
#include "ops/base/cpu.h"
#include "ops/base/status.h"
#include "ops/graph/weight_count.h"

namespace beamwright::engine {
namespace {

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
  BW_ASSIGN_OR_RETURN(parts.picture, CompilePicture(bundle.config, parts.encoder()));
  if (bundle::SearchOf(bundle.config) != v1::SEARCH_TOKENS) {
    BW_ASSIGN_OR_RETURN(parts.frames, CompileFrames(bundle, parts));
    if (parts.config.frame_ms() == 0 && parts.sound != nullptr) {
      parts.config.set_frame_ms(FrameMsOf(parts));
    }
    return absl::OkStatus();
  }
  const v1::DecoderConfig& config = bundle.config.decoder();
  auto decoder = CompileDecoder(std::move(bundle.decoder), config, parts, parts.own_encoder);
  if (!decoder.ok()) {
    return Annotate(decoder.status(), config.graph());
  }
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
  std::shared_ptr<const DecodeModel> model(new DecodeModel(std::move(parts)));
  BW_RETURN_IF_ERROR(CheckDefaultOptions(*model));
  return model;
}

}  // namespace beamwright::engine
