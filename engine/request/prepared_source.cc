// A source in the request's form becomes the tensors that the model reads, or an error that names
// the field. PrepareSource has one function for each form:
//
//   text            FromText           tokens of the codec, padded    -> encoder_input [1, length]
//   ids             FromIds            checked, and padded            -> encoder_input [1, length]
//   features        FromFeatures       a tensor as the encoder reads  -> encoder_input [1, ...],
//                                      or frames for a search without an encoder -> decoder_inputs
//   audio           FromAudio          features by the front end       -> encoder_input
//   picture         FromPicture        pixels of a PNG or JPEG file    -> encoder_input
//   decoder_inputs  FromDecoderInputs  states and memories by name     -> decoder_inputs
//   state           FromState          a state that an answer carried  -> state
//   none            FromNothing        language models: states start from constants
//
// 1. Before anything large is computed, sizes are checked: text by its bytes (CheckSize), sound by
//    its samples.
// 2. The form is converted, and its type, shape and elements are checked against the graph's
//    Parameter (ToTensor, CheckFinite). What passes here cannot fail inside the graph as an
//    INTERNAL error.
// 3. The length is checked against the model's limits (CheckLength), for a piece of a stream only
//    the largest (CheckPieceLength).
// 4. AddFurtherInputs adds the encoders' other inputs, from the request or from constants of the
//    bundle.
#include "engine/request/prepared_source.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "engine/model/model_inputs.h"
#include "engine/request/media_sources.h"
#include "engine/sound/sound_stream.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

// Refuses NaN and infinity: they would fail the request as INTERNAL, steps later.
absl::Status CheckFinite(const std::string& field, const ops::Tensor& tensor) {
  if (!ops::IsFloat(tensor.dtype())) {
    return absl::OkStatus();
  }
  const auto check = [&field](auto values) -> absl::Status {
    const auto at = std::find_if(values.begin(), values.end(),
                                 [](auto value) { return !std::isfinite(value); });
    return at == values.end()
               ? absl::OkStatus()
               : status::InvalidField(absl::StrCat(field, ".data"), "element ", at - values.begin(),
                                      " is ", *at, "; all must be finite");
  };
  const auto count = static_cast<size_t>(tensor.num_elements());
  if (tensor.dtype() == ops::DType::kF64) {
    return check(absl::MakeConstSpan(tensor.data<double>(), count));
  }
  BW_ASSIGN_OR_RETURN(const ops::Tensor values, Convert(tensor, ops::DType::kF32));
  return check(absl::MakeConstSpan(values.data<float>(), count));
}

// The tensor of a message, with an axis of rows [1, ...] in front. taken: the element type of the
// graph's Parameter. f64, NumPy's default, is rounded where the graph reads f32.
absl::StatusOr<ops::Tensor> ToTensor(const std::string& field, const v1::Tensor& proto,
                                     ops::DType taken) {
  absl::StatusOr<ops::DType> dtype = ops::ParseDType(proto.dtype());
  if (!dtype.ok()) {
    return status::AtField(dtype.status(), absl::StrCat(field, ".dtype"));
  }
  const absl::Span<const int64_t> dims(proto.shape().data(),
                                       static_cast<size_t>(proto.shape_size()));
  absl::StatusOr<int64_t> count = ops::CheckedNumElements(dims);
  if (!count.ok()) {
    return status::AtField(count.status(), absl::StrCat(field, ".shape"));
  }
  if (*count * ops::SizeOf(*dtype) != static_cast<int64_t>(proto.data().size())) {
    return status::InvalidField(absl::StrCat(field, ".data"), proto.data().size(), " bytes; ",
                                ops::Name(*dtype), ops::ToString(dims), " has ",
                                *count * ops::SizeOf(*dtype));
  }
  ops::Shape shape(dims.begin(), dims.end());
  shape.insert(shape.begin(), 1);
  ops::Tensor tensor(*dtype, shape);
  std::copy(proto.data().begin(), proto.data().end(),
            reinterpret_cast<char*>(tensor.mutable_bytes()));
  BW_RETURN_IF_ERROR(CheckFinite(field, tensor));
  // Ports of 16-bit floats are f32 (ops/decoder/decoder_ports.h).
  const bool is_short = *dtype == ops::DType::kF16 || *dtype == ops::DType::kBF16;
  const bool is_long = *dtype == ops::DType::kF64 && taken == ops::DType::kF32;
  if (!is_short && !is_long) {
    return tensor;
  }
  BW_ASSIGN_OR_RETURN(tensor, Convert(tensor, ops::DType::kF32));
  BW_RETURN_IF_ERROR(CheckFinite(field, tensor));
  return tensor;
}

// The limits that hold for a source and for a piece of one.
absl::Status CheckPieceLength(const DecodeModel& model, int64_t length) {
  if (length == 0) {
    return Invalid("source is empty");
  }
  const int most = MaxSourceLength(model);
  if (length > most) {
    return Invalid("source has ", length, " tokens; at most ", most, " are allowed");
  }
  return absl::OkStatus();
}

absl::Status CheckLeastLength(const DecodeModel& model, int64_t length) {
  const int least = MinSourceLength(model);
  return length >= least ? absl::OkStatus()
                         : Invalid("source has ", length, " positions; the model reads sources of ",
                                   least, " at least");
}

absl::Status CheckLength(const DecodeModel& model, int64_t length) {
  BW_RETURN_IF_ERROR(CheckPieceLength(model, length));
  return CheckLeastLength(model, length);
}

// Pads a source to the length of all sources (TextConfig.pad_to_length). The largest length limits
// the request's tokens, the smallest length the padded source.
absl::Status Pad(const DecodeModel& model, std::vector<int32_t>& ids) {
  BW_RETURN_IF_ERROR(CheckPieceLength(model, static_cast<int64_t>(ids.size())));
  const auto length = static_cast<size_t>(model.config().source().pad_to_length());
  ids.resize(std::max(ids.size(), length), model.source().pad_id());
  return CheckLeastLength(model, static_cast<int64_t>(ids.size()));
}

// A shape whose first axis counts rows, as requests give it: without that axis.
std::string WithoutRows(const ops::PartialShape& shape) {
  if (shape.rank() == 0) {
    return shape.ToString();
  }
  return ops::PartialShape(ops::Shape(shape.dims().begin() + 1, shape.dims().end())).ToString();
}

// An input of the encoder in messages: "'frames' f32[?, 80]".
std::string Takes(const std::string& name, const ops::ValueInfo& info) {
  return absl::StrCat("'", name, "' ", ops::Name(info.dtype), WithoutRows(info.shape));
}
std::string Takes(const EncoderPart& encoder) {
  return Takes(PortName(encoder.model->graph(), encoder.source_node()), encoder.source_info());
}

absl::Status CheckTakesIds(const DecodeModel& model, const std::string& field) {
  const EncoderPart& encoder = *model.parts().encoder();
  return ops::IsInteger(encoder.source_info().dtype)
             ? absl::OkStatus()
             : status::InvalidField(field, "the encoder takes features, ", Takes(encoder),
                                    ", not text or ids");
}

// Ids as the encoder's input tensor [1, length].
absl::StatusOr<ops::Tensor> IdTensor(const DecodeModel& model, absl::Span<const int32_t> ids) {
  const EncoderPart& encoder = *model.parts().encoder();
  const ops::ValueInfo& info = encoder.source_info();
  const auto length = static_cast<int64_t>(ids.size());
  BW_ASSIGN_OR_RETURN(ops::Tensor tensor,
                      Convert(ops::Tensor::Of<int32_t>({1, length}, ids), info.dtype));
  BW_RETURN_IF_ERROR(CheckParameter(encoder.model->graph(), encoder.source_node(), tensor));
  return tensor;
}

// Refuses a text that must have too many tokens before it is encoded, which takes many times its
// size in memory.
absl::Status CheckSize(const DecodeModel& model, const std::string& text) {
  constexpr int64_t kMostBytesOfAToken = 256;
  constexpr int64_t kAnyway = 1 << 16;
  const int most = MaxSourceLength(model);
  if (static_cast<int64_t>(text.size()) > std::max(most * kMostBytesOfAToken, kAnyway)) {
    return status::InvalidField("source.text", "has ", text.size(), " bytes; at most ", most,
                                " tokens are allowed, of up to ", kMostBytesOfAToken,
                                " bytes each");
  }
  return absl::OkStatus();
}

// Refuses a source of `field`, which only an encoder can read, for a model without one.
absl::Status CheckHasEncoder(const DecodeModel& model, const std::string& field) {
  return model.has_encoder()
             ? absl::OkStatus()
             : status::InvalidField(
                   field, "the model has no encoder; ",
                   TakesEmptySources(model)
                       ? "leave the source empty, and send a prompt as options.target_prefix"
                   : model.parts().frames == nullptr ? "send decoder_inputs"
                                                     : "send the frames as features");
}

absl::Status FromText(const DecodeModel& model, const std::string& text, PreparedSource& prepared) {
  BW_RETURN_IF_ERROR(CheckHasEncoder(model, "source.text"));
  BW_RETURN_IF_ERROR(CheckTakesIds(model, "source.text"));
  BW_RETURN_IF_ERROR(CheckSize(model, text));
  absl::StatusOr<bundle::EncodedText> encoded = model.source().Encode(text);
  if (!encoded.ok()) {
    return status::AtField(encoded.status(), "source.text");
  }
  prepared.unpadded_length = static_cast<int>(encoded->ids.size());
  BW_RETURN_IF_ERROR(Pad(model, encoded->ids));
  prepared.source_length = static_cast<int>(encoded->ids.size());
  prepared.ids = encoded->ids;
  prepared.unknown_positions = std::move(encoded->unknown_positions);
  BW_ASSIGN_OR_RETURN(prepared.encoder_input, IdTensor(model, encoded->ids));
  return absl::OkStatus();
}

absl::Status FromIds(const DecodeModel& model, const v1::TokenIds& ids, PreparedSource& prepared) {
  BW_RETURN_IF_ERROR(CheckHasEncoder(model, "source.ids"));
  BW_RETURN_IF_ERROR(CheckTakesIds(model, "source.ids"));
  BW_RETURN_IF_ERROR(CheckPieceLength(model, ids.ids_size()));
  const int64_t size =
      model.source().size() > 0 ? model.source().size() : model.parts().encoder()->table_rows;
  for (int i = 0; i < ids.ids_size(); ++i) {
    if (ids.ids(i) < 0 || (size > 0 && ids.ids(i) >= size)) {
      return status::InvalidField(absl::StrCat("source.ids[", i, "]"), ids.ids(i),
                                  " is outside [0, ", size > 0 ? absl::StrCat(size) : "2^31", ")");
    }
  }
  prepared.ids.assign(ids.ids().begin(), ids.ids().end());
  prepared.unpadded_length = ids.ids_size();
  BW_RETURN_IF_ERROR(Pad(model, prepared.ids));
  prepared.source_length = static_cast<int>(prepared.ids.size());
  BW_ASSIGN_OR_RETURN(prepared.encoder_input, IdTensor(model, prepared.ids));
  return absl::OkStatus();
}

// Features as a tensor [1, ...], and the type as which they were given.
struct Features {
  ops::Tensor tensor;
  std::string dtype;

  std::string shape() const {
    return ops::ToString(absl::MakeConstSpan(tensor.shape()).subspan(1));
  }
};

// Features that are frames [1, frames, width]. `takes`: "frames are", for messages.
absl::Status CheckFrames(const DecodeModel& model, const Features& features, int64_t width,
                         const char* takes) {
  if (features.tensor.dtype() != ops::DType::kF32) {
    return status::InvalidField("source.features.dtype", features.dtype, "; ", takes,
                                " f32 [frames, ", width, "]");
  }
  if (features.tensor.rank() != 3 || features.tensor.dim(2) != width) {
    return status::InvalidField("source.features.shape", features.shape(), "; ", takes,
                                " f32 [frames, ", width, "]");
  }
  return status::AtField(CheckPieceLength(model, features.tensor.dim(1)), "source.features.shape");
}

// What the encoder takes as a whole source.
absl::Status CheckWhole(const DecodeModel& model, const Features& features) {
  const EncoderPart& encoder = *model.parts().encoder();
  const ops::ValueInfo& info = encoder.source_info();
  if (!ops::IsFloat(info.dtype)) {
    return status::InvalidField("source.features", "the encoder takes ids, not features");
  }
  if (features.tensor.dtype() != info.dtype) {
    return status::InvalidField("source.features.dtype", features.dtype, "; the encoder takes ",
                                Takes(encoder));
  }
  if (!info.shape.Accepts(features.tensor.shape()) ||
      features.tensor.rank() <= encoder.length_axis) {
    return status::InvalidField("source.features.shape", features.shape(), "; the encoder takes ",
                                Takes(encoder));
  }
  return CheckPieceLength(model, features.tensor.dim(encoder.length_axis));
}

// Of a model that has an encoder, or is searched by frames.
absl::Status FromFeatures(const DecodeModel& model, Features features, PreparedSource& prepared) {
  if (!model.has_encoder()) {  // the frames are what an encoder elsewhere computed
    BW_RETURN_IF_ERROR(
        CheckFrames(model, features, model.parts().frames->frame_width, "frames are"));
    prepared.source_length = static_cast<int>(features.tensor.dim(1));
    prepared.decoder_inputs.push_back(std::move(features.tensor));
    return absl::OkStatus();
  }
  const EncoderPart& encoder = *model.parts().encoder();
  const bool is_in_chunks = encoder.streaming.has_value();  // of a source of any length
  BW_RETURN_IF_ERROR(
      is_in_chunks ? CheckFrames(model, features, encoder.streaming->width, "the encoder takes")
                   : CheckWhole(model, features));
  const int axis = is_in_chunks ? 1 : encoder.length_axis;
  prepared.source_length = static_cast<int>(features.tensor.dim(axis));
  prepared.encoder_input = std::move(features.tensor);
  return absl::OkStatus();
}

absl::Status FromFeatures(const DecodeModel& model, const v1::Tensor& features,
                          PreparedSource& prepared) {
  if (model.parts().frames == nullptr) {
    BW_RETURN_IF_ERROR(CheckHasEncoder(model, "source.features"));
  }
  const EncoderPart* const encoder = model.parts().encoder();
  const bool takes_frames = encoder == nullptr || encoder->streaming.has_value();
  BW_ASSIGN_OR_RETURN(ops::Tensor tensor,
                      ToTensor("source.features", features,
                               takes_frames ? ops::DType::kF32 : encoder->source_info().dtype));
  return FromFeatures(model, Features{std::move(tensor), features.dtype()}, prepared);
}

absl::Status FromAudio(const DecodeModel& model, const v1::Audio& audio, PreparedSource& prepared) {
  const auto& front_end = model.parts().sound;
  if (front_end == nullptr) {
    return status::InvalidField(
        "source.audio", "the model's bundle does not say how sound becomes features (sound)");
  }
  const auto format = sound::ReadFormat(audio.format());
  if (!format.ok()) {
    return status::WithFields(format.status(), [](absl::string_view field) {
      return absl::StrCat("source.audio.", field);
    });
  }
  sound::SoundStream stream(front_end, *format);
  // The number of frames is checked before the features are computed.
  const int64_t samples = static_cast<int64_t>(audio.data().size()) / format->sample_bytes();
  const int64_t at_own_rate = samples * front_end->sample_rate() / format->sample_rate;
  BW_RETURN_IF_ERROR(
      status::AtField(CheckLength(model, front_end->NumFrames(at_own_rate)), "source.audio.data"));
  std::vector<float> features;
  if (const absl::Status added = stream.Add(audio.data(), features); !added.ok()) {
    return status::AtField(added, "source.audio.data");
  }
  stream.Finish(features);
  prepared.encoder_input = SoundSource(model, std::move(features));
  const EncoderPart& encoder = *model.parts().encoder();
  const int axis = encoder.streaming.has_value() ? 1 : encoder.length_axis;
  prepared.source_length = static_cast<int>(prepared.encoder_input->dim(axis));
  const ops::ValueInfo& info = encoder.source_info();
  if (!encoder.streaming.has_value() && !info.shape.Accepts(prepared.encoder_input->shape())) {
    return status::InvalidField("source.audio.data", "becomes ",
                                ops::ToString(prepared.encoder_input->shape()),
                                "; the encoder takes ", Takes(encoder));
  }
  return absl::OkStatus();
}

absl::Status FromPicture(const DecodeModel& model, absl::string_view file,
                         PreparedSource& prepared) {
  BW_ASSIGN_OR_RETURN(ops::Tensor tensor, PictureSource(model, file, MaxSourceLength(model)));
  const int axis = model.parts().encoder()->length_axis;
  BW_RETURN_IF_ERROR(status::AtField(CheckLength(model, tensor.dim(axis)), "source.picture"));
  prepared.source_length = static_cast<int>(tensor.dim(axis));
  prepared.encoder_input = std::move(tensor);
  return absl::OkStatus();
}

// Whether the first axis of a memory, that of the source, is the request's to choose.
bool IsMeasured(const DecoderPart& decoder, const DecoderInput& input) {
  const ops::PartialShape& shape = decoder.decoder.node(input.node).outputs[0].shape;
  return !input.is_state && shape.has_rank() && shape.rank() > 1 &&
         shape.dim(1) == ops::PartialShape::kDynamic;
}

absl::Status FromDecoderInputs(const DecodeModel& model, const v1::DecoderInputs& given,
                               PreparedSource& prepared) {
  if (model.has_encoder() || model.parts().frames != nullptr) {
    return status::InvalidField("source.decoder_inputs",
                                model.has_encoder()
                                    ? "the model has an encoder; send text, ids or features"
                                    : "the model has no decoder; send the frames as features");
  }
  const DecoderPart& decoder = model.parts().decoder();
  const int most = MaxSourceLength(model);
  if (given.source_length() < 0 || given.source_length() > most) {
    return status::InvalidField("source.decoder_inputs.source_length", given.source_length(),
                                " is outside [1, ", most, "]; 0 takes the memory's length");
  }
  // 1. One tensor for each input of the decoder, in the decoder's order: given by the request, or a
  //    constant.
  size_t used = 0;
  int64_t length = given.source_length();
  std::string measured;  // the first memory whose extent the request chooses
  int64_t extent = 0;
  for (const DecoderInput& input : decoder.inputs) {
    const auto& map = input.is_state ? given.states() : given.memory();
    const std::string field = absl::StrCat(
        "source.decoder_inputs.", input.is_state ? "states" : "memory", "['", input.name, "']");
    const auto it = map.find(input.name);
    if (it == map.end() && input.has_constant) {
      absl::StatusOr<ops::Tensor> constant = ConstantInput(decoder, input);
      if (!constant.ok()) {
        return Invalid(field, " is missing: ", constant.status().message());
      }
      prepared.decoder_inputs.push_back(*std::move(constant));
      continue;
    }
    if (it == map.end()) {
      return Invalid(field, " is missing");
    }
    if (input.has_own_start && input.has_constant) {
      return Invalid(field, " starts as the model says: it grows, or counts the steps");
    }
    ++used;
    BW_ASSIGN_OR_RETURN(
        ops::Tensor tensor,
        ToTensor(field, it->second, decoder.decoder.node(input.node).outputs[0].dtype));
    BW_RETURN_IF_ERROR(status::AtField(CheckParameter(decoder.decoder, input.node, tensor), field));
    // 2. Memories say how long the source is, and must agree.
    if (!input.is_state && length == 0 && tensor.rank() > 1) {
      length = tensor.dim(1);
    }
    if (IsMeasured(decoder, input)) {
      BW_RETURN_IF_ERROR(status::AtField(CheckLength(model, tensor.dim(1)), field));
      if (!measured.empty() && tensor.dim(1) != extent) {
        return Invalid(field, " is of a source of ", tensor.dim(1), ", ", measured, " of one of ",
                       extent);
      }
      measured = field;
      extent = tensor.dim(1);
    }
    prepared.decoder_inputs.push_back(std::move(tensor));
  }
  // 3. No input may be left over, and the length must be known.
  if (used != given.states().size() + given.memory().size()) {
    return status::InvalidField(
        "source.decoder_inputs", "there are inputs that the decoder does not take; it takes ",
        absl::StrJoin(decoder.inputs, ", ", [](std::string* out, const DecoderInput& i) {
          absl::StrAppend(out, "'", i.name, "'");
        }));
  }
  if (length == 0) {
    return status::InvalidField("source.decoder_inputs.source_length",
                                "is not set, and no memory states it; ", "allowed is [1, ", most,
                                "]");
  }
  BW_RETURN_IF_ERROR(CheckLength(model, length));
  prepared.source_length = static_cast<int>(length);
  return absl::OkStatus();
}

// An empty source: a language model starts from constants.
absl::Status FromNothing(const DecodeModel& model, PreparedSource& prepared) {
  // Counts as the source's length, from which the default of max_length follows.
  constexpr int kLength = 50;
  if (!TakesEmptySources(model)) {
    return Invalid("source is empty: set text, ids, features, decoder_inputs, audio or picture");
  }
  v1::DecoderInputs nothing;
  nothing.set_source_length(std::min(kLength, MaxSourceLength(model)));
  return FromDecoderInputs(model, nothing, prepared);
}

absl::Status FromState(const DecodeModel& model, absl::string_view key, absl::string_view bytes,
                       PreparedSource& prepared) {
  BW_ASSIGN_OR_RETURN(prepared.state, ReadState(model, key, bytes));
  return FromNothing(model, prepared);
}

// Refuses integers beyond the rows of a table that they index: they would fail in the encoder.
absl::Status CheckInTable(const FurtherInput& input, const std::string& field,
                          const ops::Tensor& tensor) {
  if (input.table_rows < 0) {
    return absl::OkStatus();
  }
  BW_ASSIGN_OR_RETURN(const ops::Tensor ids, Convert(tensor, ops::DType::kI64));
  const auto values =
      absl::MakeConstSpan(ids.data<int64_t>(), static_cast<size_t>(ids.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= input.table_rows) {
      return status::InvalidField(absl::StrCat(field, ".data"), "element ", i, " is ", values[i],
                                  ", outside [0, ", input.table_rows, ")");
    }
  }
  return absl::OkStatus();
}

// One further input of a request, [1, ...].
absl::StatusOr<ops::Tensor> FurtherTensor(const EncoderPart& encoder, const FurtherInput& input,
                                          const v1::Tensor& given, const std::string& field,
                                          int64_t source_length) {
  const ops::ValueInfo& info = encoder.info_of(input.input);
  BW_ASSIGN_OR_RETURN(ops::Tensor tensor, ToTensor(field, given, info.dtype));
  if (tensor.dtype() != info.dtype) {
    return status::InvalidField(field + ".dtype", given.dtype(), "; the encoder takes ",
                                Takes(input.name, info));
  }
  const ops::Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
  if (!info.shape.Accepts(tensor.shape())) {
    return status::InvalidField(field + ".shape", ops::ToString(shape), "; the encoder takes ",
                                Takes(input.name, info));
  }
  if (input.follows_source && tensor.dim(1) != source_length) {
    return status::InvalidField(field + ".shape", ops::ToString(shape),
                                "; the first axis must be as long as the source: ", source_length);
  }
  BW_RETURN_IF_ERROR(CheckInTable(input, field, tensor));
  return tensor;
}

// Adds the encoders' inputs besides the source. One error names all faults.
absl::Status AddFurtherInputs(const DecodeModel& model, const v1::Source& source,
                              PreparedSource& prepared) {
  status::Faults faults;
  std::vector<std::string> names;
  size_t used = 0;
  for (const auto& [encoder, input] : model.parts().wanted_inputs()) {
    const std::string field = absl::StrCat("source.further_inputs['", input->name, "']");
    const auto it = source.further_inputs().find(input->name);
    const bool is_given = it != source.further_inputs().end();
    const bool is_new = std::find(names.begin(), names.end(), input->name) == names.end();
    if (is_new) {
      names.push_back(input->name);
      used += is_given ? 1 : 0;
    }
    absl::StatusOr<ops::Tensor> tensor =
        is_given ? FurtherTensor(*encoder, *input, it->second, field, prepared.source_length)
        : input->has_constant
            ? ConstantInput(*encoder, *input, prepared.source_length)
            : status::InvalidField(field, "is missing; the encoder takes ",
                                   Takes(input->name, encoder->info_of(input->input)));
    if (tensor.ok()) {
      prepared.further_inputs.push_back(*std::move(tensor));
    } else if (is_new) {
      const status::Faults own = status::FaultsOf(tensor.status());
      faults.insert(faults.end(), own.begin(), own.end());
    }
  }
  if (used != static_cast<size_t>(source.further_inputs_size())) {
    faults.Add("source.further_inputs", "there are inputs that the model does not take; it takes ",
               names.empty() ? "none" : "",
               absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
                 absl::StrAppend(out, "'", name, "'");
               }));
  }
  return status::OkOrInvalid(faults);
}

}  // namespace

bool TakesEmptySources(const DecodeModel& model) {
  return !model.has_encoder() && model.parts().frames == nullptr && model.config().has_decoder() &&
         absl::c_all_of(model.parts().decoder().inputs,
                        [](const DecoderInput& input) { return input.has_constant; });
}

int MaxSourceLength(const DecodeModel& model) {
  constexpr int kMost = 100000;
  constexpr int kMostSamples = 160 * kMost;  // the samples of kMost frames of 10 ms
  const bool is_samples = model.parts().sound != nullptr && model.parts().sound->is_samples();
  const int configured = model.config().limits().max_source_length();
  const int most = configured > 0 ? configured : is_samples ? kMostSamples : kMost;
  const int padded = model.config().source().pad_to_length();
  return padded > 0 ? std::min(most, padded) : most;
}

int MinSourceLength(const DecodeModel& model) {
  return std::max(model.config().limits().min_source_length(), 1);
}

absl::StatusOr<PreparedSource> PrepareSource(const DecodeModel& model, const v1::Source& source,
                                             absl::string_view state_key) {
  PreparedSource prepared;
  absl::Status status;
  switch (source.kind_case()) {
    case v1::Source::kText:
      status = FromText(model, source.text(), prepared);
      break;
    case v1::Source::kIds:
      status = FromIds(model, source.ids(), prepared);
      break;
    case v1::Source::kFeatures:
      status = FromFeatures(model, source.features(), prepared);
      if (status.ok()) {
        status = CheckLength(model, prepared.source_length);
      }
      break;
    case v1::Source::kDecoderInputs:
      status = FromDecoderInputs(model, source.decoder_inputs(), prepared);
      break;
    case v1::Source::kAudio:
      status = FromAudio(model, source.audio(), prepared);
      break;
    case v1::Source::kPicture:
      status = FromPicture(model, source.picture(), prepared);
      break;
    case v1::Source::kState:
      status = FromState(model, state_key, source.state(), prepared);
      break;
    case v1::Source::KIND_NOT_SET:
      status = FromNothing(model, prepared);
      break;
  }
  BW_RETURN_IF_ERROR(status);
  BW_RETURN_IF_ERROR(AddFurtherInputs(model, source, prepared));
  return prepared;
}

absl::StatusOr<PreparedSource> PreparePiece(const DecodeModel& model, const v1::Tensor& features) {
  PreparedSource prepared;
  BW_RETURN_IF_ERROR(FromFeatures(model, features, prepared));
  BW_RETURN_IF_ERROR(AddFurtherInputs(model, v1::Source(), prepared));
  return prepared;
}

absl::StatusOr<PreparedSource> PrepareFeatures(const DecodeModel& model, ops::Tensor features,
                                               bool is_whole) {
  PreparedSource prepared;
  std::string dtype(ops::Name(features.dtype()));
  BW_RETURN_IF_ERROR(FromFeatures(model, {std::move(features), std::move(dtype)}, prepared));
  if (is_whole) {
    BW_RETURN_IF_ERROR(CheckLength(model, prepared.source_length));
  }
  BW_RETURN_IF_ERROR(AddFurtherInputs(model, v1::Source(), prepared));
  return prepared;
}

}  // namespace beamwright::engine
