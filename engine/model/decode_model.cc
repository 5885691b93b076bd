// What a loaded model says about itself: its description for clients (Describe), and why its work
// cannot be shared among requests, if it cannot, for the log and the description:
//
// 1. encodes_apart: why sources must be encoded one at a time. Some graph of an encoder mixes rows.
// 2. lengths_apart: why only sources of equal length are encoded together. Padding would change the
//    results, or nothing was proven about it.
// 3. steps_apart: why each row of a step is computed alone.
//
// Each is empty if the work is shared, and else the reason that the compiler found, with the name
// of the part: "ensemble.members[1]: ..." or "scorer 'lm': ...". A model with such a reason answers
// correctly, but at a fraction of the throughput.
//
// The precisions that a user asks for, by name, and those that `auto` chooses, come first.
#include "engine/model/decode_model.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "engine/model/parts.h"
#include "ops/base/status.h"

namespace beamwright::engine {

// Names of precisions, and what each means for the parts of a model: encoder, decoder's step and
// projection to the vocabulary (ResolvePrecision). A user asks for f32, bf16, int8 or auto. The
// other names say how bf16 or int8 is computed on some CPUs; auto chooses them, and answers name
// them, but no user may ask for them (CheckAskedPrecision).

namespace {

struct PrecisionName {
  absl::string_view name;
  v1::Precision precision;
  absl::string_view instead;  // what to ask for; empty: this name
};

constexpr PrecisionName kNames[] = {
    {"f32", v1::PRECISION_F32, ""},
    {"bf16", v1::PRECISION_BF16, ""},
    {"bf16-dot", v1::PRECISION_BF16_DOT, "bf16"},
    {"bf16-amx", v1::PRECISION_BF16_AMX, "bf16"},
    {"int8", v1::PRECISION_INT8, ""},
    {"int8-core", v1::PRECISION_INT8_CORE, "int8"},
    {"auto", v1::PRECISION_AUTO, ""},
};

absl::Status ChosenByAuto(const PrecisionName& name) {
  return Invalid("precision: '", name.name,
                 "' is chosen by auto, where CPU and answers allow it; ask for auto or ",
                 name.instead);
}

std::vector<std::string> Names(bool all) {
  std::vector<std::string> names;
  for (const PrecisionName& known : kNames) {
    if (all || known.instead.empty()) {
      names.emplace_back(known.name);
    }
  }
  return names;
}

absl::Status NotOneOf(absl::string_view name, std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return Invalid("precision: '", name, "' is not one of ", absl::StrJoin(names, ", "), " and ",
                 last);
}

}  // namespace

std::vector<std::string> PrecisionNames() { return Names(/*all=*/false); }

std::vector<std::string> AllPrecisionNames() { return Names(/*all=*/true); }

absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view name) {
  const absl::StatusOr<v1::Precision> precision = ParseAnyPrecision(name);
  if (!precision.ok()) {
    return NotOneOf(name, PrecisionNames());
  }
  BW_RETURN_IF_ERROR(CheckAskedPrecision(*precision));
  return precision;
}

absl::StatusOr<v1::Precision> ParseAnyPrecision(absl::string_view name) {
  for (const PrecisionName& known : kNames) {
    if (name == known.name) {
      return known.precision;
    }
  }
  return NotOneOf(name, AllPrecisionNames());
}

absl::Status CheckAskedPrecision(v1::Precision precision) {
  for (const PrecisionName& known : kNames) {
    if (precision == known.precision && !known.instead.empty()) {
      return ChosenByAuto(known);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PartPrecisions> ResolvePrecision(v1::Precision precision) {
  constexpr auto kF32 = Precision::kF32;
  constexpr auto kBf16 = Precision::kBf16;
  constexpr auto kBf16Dot = Precision::kBf16Dot;
  constexpr auto kBf16Amx = Precision::kBf16Amx;
  constexpr auto kInt8 = Precision::kInt8;
  switch (precision) {
    case v1::PRECISION_F32:
      return PartPrecisions{"f32", kF32, kF32, kF32};
    case v1::PRECISION_BF16:
      return PartPrecisions{"bf16", kBf16, kBf16, kBf16};
    case v1::PRECISION_BF16_DOT:
      return PartPrecisions{"bf16-dot", kBf16Dot, kBf16Dot, kBf16Dot};
    case v1::PRECISION_BF16_AMX:
      return PartPrecisions{"bf16-amx", kBf16Amx, kBf16Amx, kBf16Amx};
    case v1::PRECISION_INT8:
      return PartPrecisions{"int8", kInt8, kInt8, kInt8};
    case v1::PRECISION_INT8_CORE:
      return PartPrecisions{"int8-core", kF32, kInt8, kF32};
    default:
      return Invalid("precision: ", static_cast<int>(precision), " is not known");
  }
}

namespace {

// An input without its batch axis, -1 for an extent that the request chooses.
v1::TensorDescription DescribeInput(const std::string& name, const ops::ValueInfo& info) {
  v1::TensorDescription description;
  description.set_name(name);
  const absl::string_view dtype = ops::Name(info.dtype);
  description.set_dtype(dtype.data(), dtype.size());
  for (int axis = 1; axis < info.shape.rank(); ++axis) {
    description.add_shape(info.shape.dim(axis));
  }
  return description;
}

// The name of the scorer whose language model is decoder `number`, as "scorer 'lm': "; empty for
// other decoders.
std::string NameOfScorer(const DecodeModel::Parts& parts, int number) {
  for (const ScorerPart& scorer : parts.scorers) {
    if (scorer.decoder == number) {
      return absl::StrCat("scorer '", scorer.name, "': ");
    }
  }
  return "";
}

v1::StreamingDescription DescribeStreaming(const DecodeModel::Parts& parts,
                                           const StreamingPart& streaming) {
  v1::StreamingDescription description;
  description.set_chunk(static_cast<int32_t>(streaming.chunk));
  description.set_shift(static_cast<int32_t>(streaming.shift));
  description.set_frames(static_cast<int32_t>(parts.frames->chunk_frames));
  description.set_look_ahead(static_cast<int32_t>(streaming.chunk - streaming.shift));
  description.set_state_bytes(streaming.state_bytes());
  // Milliseconds of a feature; the bundle's frames are those of the search.
  const double feature_ms = double{parts.config.frame_ms()} *
                            static_cast<double>(parts.frames->chunk_frames) /
                            static_cast<double>(streaming.shift);
  description.set_chunk_ms(feature_ms * static_cast<double>(streaming.chunk));
  description.set_shift_ms(feature_ms * static_cast<double>(streaming.shift));
  description.set_look_ahead_ms(feature_ms *
                                static_cast<double>(streaming.chunk - streaming.shift));
  return description;
}

// The name of a decoder at the begin of an error or a log line; the model's first decoder needs no
// name.
std::string NameOfDecoder(const DecodeModel::Parts& parts, int number) {
  if (number == 0) {
    return "";
  }
  if (number < parts.num_members()) {
    return absl::StrCat("ensemble.members[", number - 1, "]: ");
  }
  return NameOfScorer(parts, number);
}

// Describes the further inputs of all encoders, each once. A request may leave out an input if all
// encoders that read it have a constant for it.
void DescribeFurtherInputs(const DecodeModel::Parts& parts, v1::ModelDescription& description) {
  auto& inputs = *description.mutable_further_inputs();
  for (const WantedInput& wanted : parts.wanted_inputs()) {
    const FurtherInput& input = *wanted.input;
    const auto same = std::find_if(inputs.begin(), inputs.end(), [&](const auto& described) {
      return described.name() == input.name;
    });
    if (same != inputs.end()) {
      same->set_has_default(same->has_default() && input.has_constant);
      continue;
    }
    v1::TensorDescription& added = *inputs.Add();
    added = DescribeInput(input.name, wanted.encoder->info_of(input.input));
    added.set_has_default(input.has_constant);
  }
}

}  // namespace

const std::string& DecodeModel::name() const { return parts_->name; }
const std::string& DecodeModel::version() const { return parts_->version; }
const v1::ModelConfig& DecodeModel::config() const { return parts_->config; }
const bundle::TextCodec& DecodeModel::source() const { return *parts_->source; }
const bundle::TextCodec& DecodeModel::target() const { return *parts_->target; }
int DecodeModel::target_vocabulary_size() const { return parts_->vocabulary_size(); }
const std::string& DecodeModel::numerics() const { return parts_->numerics; }
std::string DecodeModel::precision_note() const {
  const auto& note = parts_->options.precision_note;
  return note == nullptr ? "" : *note;
}
int64_t DecodeModel::weight_bytes() const { return parts_->weight_bytes; }
const SearchKind& DecodeModel::search() const { return *parts_->options.search; }
const ops::TokenTables& DecodeModel::token_tables() const {
  static const ops::TokenTables kNone;
  if (parts_->frames == nullptr) {
    return parts_->decoder().token_tables;
  }
  return parts_->frames->transducer == nullptr
             ? kNone
             : parts_->frames->transducer->graphs.predictor->token_tables();
}

bool DecodeModel::has_encoder() const { return parts_->encoder() != nullptr; }
bool DecodeModel::reads_whole_source() const {
  return has_encoder() && parts_->chunk_encoder() == nullptr;
}
bool DecodeModel::encodes_together() const { return has_encoder() && encodes_apart().empty(); }

std::string DecodeModel::encodes_apart() const {
  for (int member = 0; has_encoder() && member < parts_->num_members(); ++member) {
    const std::string& why = parts_->encoder_of(member)->apart;
    if (!why.empty()) {
      return absl::StrCat(NameOfDecoder(*parts_, member), why);
    }
  }
  return "";
}

bool DecodeModel::encodes_lengths_together() const {
  return encodes_together() && lengths_apart().empty();
}

std::string DecodeModel::lengths_apart() const {
  for (int member = 0; has_encoder() && member < parts_->num_members(); ++member) {
    const EncoderPart& encoder = *parts_->encoder_of(member);
    const ops::LengthProof& lengths = encoder.proof.lengths;
    if (!lengths.holds) {
      return absl::StrCat(NameOfDecoder(*parts_, member), lengths.reason.empty()
                                                              ? "nothing was proven of positions"
                                                              : lengths.reason);
    }
    if (encoder.length_axis != parts_->encoder()->length_axis) {
      return absl::StrCat(NameOfDecoder(*parts_, member), "its length is on another axis");
    }
  }
  return "";
}

std::string DecodeModel::steps_apart() const {
  if (parts_->frames != nullptr && parts_->frames->transducer != nullptr) {
    const ops::Transducer& graphs = parts_->frames->transducer->graphs;
    const std::pair<const char*, const ops::RowGraph*> rows[] = {
        {"predictor: ", graphs.predictor.get()}, {"joiner: ", graphs.joiner.get()}};
    for (const auto& [name, graph] : rows) {
      if (const std::string why = graph->apart(); !why.empty()) {
        return absl::StrCat(name, why);
      }
    }
  }
  for (int number = 0; number < parts_->num_decoders(); ++number) {
    const ops::RowPlan& plan = parts_->decoder(number).body->plan();
    if (!plan.separable) {
      // Where there are frames, all decoders are scorers'.
      return absl::StrCat(parts_->frames != nullptr ? NameOfScorer(*parts_, number)
                                                    : NameOfDecoder(*parts_, number),
                          plan.reason);
    }
  }
  return "";
}

v1::ModelDescription DecodeModel::Describe() const {
  v1::ModelDescription description;
  description.mutable_summary()->set_name(parts_->name);
  description.mutable_summary()->set_version(parts_->version);
  description.mutable_summary()->set_description(parts_->config.description());
  description.mutable_summary()->set_ready(true);
  *description.mutable_config() = parts_->config;
  description.set_numerics(parts_->numerics);
  description.set_source_vocabulary_size(parts_->source->size());
  description.set_target_vocabulary_size(parts_->vocabulary_size());
  description.mutable_step_batching()->set_together(steps_apart().empty());
  description.mutable_step_batching()->set_reason(steps_apart());
  if (parts_->encoder() == nullptr && parts_->frames != nullptr) {
    v1::TensorDescription& frames = *description.mutable_encoder_input();
    frames.set_name("frames");
    frames.set_dtype("f32");
    frames.add_shape(-1);
    frames.add_shape(parts_->frames->frame_width);
    description.set_source_length_axis(1);
  } else if (parts_->encoder() == nullptr) {
    for (const DecoderInput& input : parts_->decoder().inputs) {
      v1::TensorDescription& tensor =
          *(input.is_state ? description.add_states() : description.add_memory());
      tensor = DescribeInput(input.name, parts_->decoder().decoder.node(input.node).outputs[0]);
      tensor.set_has_default(input.has_constant);
    }
  } else {
    const EncoderPart& encoder = *parts_->encoder();
    *description.mutable_encoder_input() = DescribeInput(
        encoder.model->graph().node(encoder.source_node()).name, encoder.source_info());
    description.set_source_length_axis(encoder.length_axis);
    if (encoder.streaming.has_value()) {
      // Requests bring any number of frames, which stand first.
      v1::TensorDescription& source = *description.mutable_encoder_input();
      source.clear_shape();
      source.add_shape(-1);
      source.add_shape(encoder.streaming->width);
      description.set_source_length_axis(1);
      *description.mutable_streaming() = DescribeStreaming(*parts_, *encoder.streaming);
    }
    DescribeFurtherInputs(*parts_, description);
    description.mutable_encoder_batching()->set_together(encodes_together());
    description.mutable_encoder_batching()->set_reason(encodes_apart());
    if (reads_whole_source() && encodes_together()) {
      description.mutable_length_batching()->set_together(encodes_lengths_together());
      description.mutable_length_batching()->set_reason(lengths_apart());
    }
  }
  return description;
}

}  // namespace beamwright::engine
