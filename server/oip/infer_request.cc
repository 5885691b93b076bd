// ReadInferRequest: an inference request of the Open Inference Protocol becomes a DecodeJob.
//
// 1. The model, the parameters (infer.h: options, timeout, priority), and the tensors
//    (input_tensor.h: types, shapes, raw or typed contents).
// 2. ReadOutputs: which tensors the answer has; outputs may be asked for by name, and attention or
//    words are then switched on in the options (AskForOutputs).
// 3. CheckOptions, before any of them is used; patterns are compiled later, on the thread for long
//    work.
// 4. AddSources: tensors become sources, by what the model reads. Axis 0 of every tensor counts
//    sources.
//
//   source_text      BYTES [n] or [n, 1]     AddTexts       one text for each source
//   source_ids       INT [n, length]         AddIds         rows end with any number of -1
//   source_features  FP [n, frames, width]   AddFeatures
//   source_audio     FP32, INT16 [n, samples]  AddAudio
//   source_picture   BYTES [n]               AddPictures
//   prompt           BYTES [1] or ids        AddPrompt      language models: the target prefix
//   others           by name                 AddDecoderInputs, AddFurtherInput
//
// An error names the tensor in the words that stock clients of Triton know.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "engine/bundle/rules.h"
#include "engine/request/prepared_source.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/oip/infer.h"
#include "server/oip/input_tensor.h"
#include "server/oip/service.h"

namespace beamwright::oip {
namespace {

// Rows of ids end where their padding starts.
constexpr int32_t kPadding = -1;

absl::Status AddTexts(const InputTensor& tensor, v1::DecodeRequest& request) {
  if (tensor.datatype->size != 0) {
    return Invalid("takes BYTES, not ", tensor.datatype->name);
  }
  if (tensor.row_size() != 1) {
    return Invalid("takes shape [sources] or [sources,1], not [", absl::StrJoin(tensor.shape, ","),
                   "]");
  }
  for (const absl::string_view text : tensor.strings) {
    request.add_sources()->set_text(std::string(text));
  }
  return absl::OkStatus();
}

absl::Status AddIds(const InputTensor& tensor, v1::DecodeRequest& request) {
  BW_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ToIds(tensor));
  const auto width = static_cast<size_t>(tensor.row_size());
  for (size_t row = 0; row < static_cast<size_t>(tensor.shape[0]); ++row) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto row_end = begin + static_cast<std::ptrdiff_t>(width);
    const auto end = std::find(begin, row_end, kPadding);
    const auto behind = std::find_if(end, row_end, [](int32_t id) { return id != kPadding; });
    if (behind != row_end) {
      return Invalid("[", row, "][", behind - begin, "] is ", *behind, " behind padding (",
                     kPadding, "), which ends a row");
    }
    request.add_sources()->mutable_ids()->mutable_ids()->Add(begin, end);
  }
  return absl::OkStatus();
}

// One source's part of a tensor.
v1::Tensor Slice(const InputTensor& tensor, int64_t row) {
  v1::Tensor slice;
  slice.set_dtype(std::string(tensor.datatype->dtype));
  slice.mutable_shape()->Add(tensor.shape.begin() + 1, tensor.shape.end());
  const auto size = static_cast<size_t>(tensor.row_size() * tensor.datatype->size);
  slice.set_data(tensor.bytes.substr(static_cast<size_t>(row) * size, size));
  return slice;
}

absl::Status AddFeatures(const InputTensor& tensor, v1::DecodeRequest& request) {
  if (tensor.datatype->size == 0) {
    return Invalid("takes numbers, not BYTES");
  }
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    *request.add_sources()->mutable_features() = Slice(tensor, row);
  }
  return absl::OkStatus();
}

absl::Status AddAudio(const v1::ModelDescription& model, const InputTensor& tensor,
                      v1::DecodeRequest& request) {
  const bool is_f32 = tensor.datatype->dtype == "f32";
  if ((!is_f32 && tensor.datatype->dtype != "i16") || tensor.shape.size() != 2) {
    return Invalid("takes FP32 or INT16 [sources,samples]");
  }
  const v1::SoundConfig& sound = model.config().sound();
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    v1::Audio& audio = *request.add_sources()->mutable_audio();
    audio.mutable_format()->set_samples(is_f32 ? v1::SAMPLE_FORMAT_F32 : v1::SAMPLE_FORMAT_PCM16);
    if (sound.sample_rate() > 0) {
      audio.mutable_format()->set_sample_rate(sound.sample_rate());
    }
    audio.set_data(Slice(tensor, row).data());
  }
  return absl::OkStatus();
}

absl::Status AddPictures(const InputTensor& tensor, v1::DecodeRequest& request) {
  if (tensor.datatype->size != 0 || tensor.row_size() != 1) {
    return Invalid("takes BYTES [sources] or [sources,1], each a PNG or JPEG file");
  }
  for (const absl::string_view file : tensor.strings) {
    request.add_sources()->set_picture(std::string(file));
  }
  return absl::OkStatus();
}

bool Names(const google::protobuf::RepeatedPtrField<v1::TensorDescription>& descriptions,
           const std::string& name) {
  return std::any_of(descriptions.begin(), descriptions.end(),
                     [&](const v1::TensorDescription& d) { return d.name() == name; });
}

std::vector<std::string> DecoderInputNames(const v1::ModelDescription& model) {
  std::vector<std::string> names;
  for (const auto* tensors : {&model.memory(), &model.states()}) {
    for (const v1::TensorDescription& tensor : *tensors) {
      names.push_back(tensor.name());
    }
  }
  return names;
}

// Inputs of a model without encoder: the memories and states that its decoder reads, by name.
absl::Status AddDecoderInputs(const v1::ModelDescription& model,
                              const std::vector<InputTensor>& tensors, v1::DecodeRequest& request) {
  for (const InputTensor& tensor : tensors) {
    const bool is_state = Names(model.states(), tensor.name);
    if ((!is_state && !Names(model.memory(), tensor.name)) || tensor.datatype->size == 0) {
      return Invalid("input '", tensor.name, "' of datatype ", tensor.datatype->name,
                     " is not an input of the model's decoder; it reads ",
                     absl::StrJoin(DecoderInputNames(model), ", "), ", none of them BYTES");
    }
    if (tensor.shape[0] != tensors[0].shape[0]) {
      return Invalid("input '", tensor.name, "' holds ", tensor.shape[0], " sources, '",
                     tensors[0].name, "' ", tensors[0].shape[0]);
    }
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      if (request.sources_size() <= row) {
        request.add_sources();
      }
      v1::DecoderInputs& inputs =
          *request.mutable_sources(static_cast<int>(row))->mutable_decoder_inputs();
      (*(is_state ? inputs.mutable_states() : inputs.mutable_memory()))[tensor.name] =
          Slice(tensor, row);
    }
  }
  return absl::OkStatus();
}

// A prompt, of a model that takes empty sources: the target prefix of a request with one source.
absl::Status AddPrompt(const InputTensor& tensor, v1::DecodeRequest& request,
                       v1::DecodeOptions& options) {
  if (tensor.shape[0] != 1) {
    return Invalid("holds ", tensor.shape[0], " prompts; a request has one");
  }
  if (options.has_target_prefix()) {
    return Invalid("parameters['target_prefix'] is set, too; send one of them");
  }
  v1::DecodeRequest sources;
  BW_RETURN_IF_ERROR(tensor.datatype->size == 0 ? AddTexts(tensor, sources)
                                                : AddIds(tensor, sources));
  const v1::Source& prompt = sources.sources(0);
  if (!prompt.text().empty()) {
    options.mutable_target_prefix()->set_text(prompt.text());
  } else if (!prompt.ids().ids().empty()) {
    *options.mutable_target_prefix()->mutable_ids()->mutable_ids() = prompt.ids().ids();
  }
  request.add_sources();
  return absl::OkStatus();
}

// The tensor that holds the sources themselves.
absl::Status AddSource(const v1::ModelDescription& model, const InputTensor& tensor,
                       v1::DecodeRequest& request) {
  absl::Status status;
  if (tensor.name == kSourceText) {
    status = AddTexts(tensor, request);
  } else if (tensor.name == kSourceIds) {
    status = AddIds(tensor, request);
  } else if (tensor.name == kSourceFeatures) {
    status = AddFeatures(tensor, request);
  } else if (tensor.name == kSourceAudio && model.config().has_sound()) {
    status = AddAudio(model, tensor, request);
  } else if (tensor.name == kSourcePicture && model.config().has_picture()) {
    status = AddPictures(tensor, request);
  } else {
    return Invalid("unexpected inference input '", tensor.name, "' for model '",
                   model.summary().name(), "'; it takes '", SourceInput(model).name(), "'");
  }
  return Annotate(status, absl::StrCat("input '", tensor.name, "'"));
}

// A further input of the encoder, with a row for each source.
absl::Status AddFurtherInput(const InputTensor& tensor, v1::DecodeRequest& request) {
  if (tensor.datatype->size == 0) {
    return Invalid("takes numbers, not BYTES");
  }
  if (tensor.shape[0] != request.sources_size()) {
    return Invalid("holds ", tensor.shape[0], " rows for ", request.sources_size(), " sources");
  }
  for (int row = 0; row < request.sources_size(); ++row) {
    (*request.mutable_sources(row)->mutable_further_inputs())[tensor.name] = Slice(tensor, row);
  }
  return absl::OkStatus();
}

// Adds the sources of all tensors; a prompt becomes the target prefix of `options`.
absl::Status AddSources(const engine::DecodeModel& model, const std::vector<InputTensor>& tensors,
                        v1::DecodeRequest& request, v1::DecodeOptions& options) {
  const bool takes_empty_sources = engine::TakesEmptySources(model);
  if (tensors.empty() && takes_empty_sources) {
    request.add_sources();
    return absl::OkStatus();
  }
  if (tensors.empty()) {
    return status::InvalidField("inputs", "is empty; ModelMetadata lists what the model takes");
  }
  for (const InputTensor& tensor : tensors) {
    if (tensor.shape[0] > engine::kMaxSources) {
      return Invalid("input '", tensor.name, "' holds ", tensor.shape[0], " sources; at most ",
                     engine::kMaxSources, " are allowed in a call");
    }
  }
  if (takes_empty_sources && tensors.size() == 1 && tensors[0].name == kPrompt) {
    return Annotate(AddPrompt(tensors[0], request, options), "input 'prompt'");
  }
  if (!model.has_encoder() && model.config().has_decoder()) {
    return AddDecoderInputs(model.Describe(), tensors, request);
  }
  const v1::ModelDescription description = model.Describe();
  const auto is_further = [&](const InputTensor& tensor) {
    return Names(description.further_inputs(), tensor.name);
  };
  const auto main = std::find_if_not(tensors.begin(), tensors.end(), is_further);
  if (main == tensors.end()) {
    return Invalid("the source is missing: model '", model.name(), "' takes '",
                   SourceInput(description).name(), "'");
  }
  if (std::find_if_not(main + 1, tensors.end(), is_further) != tensors.end()) {
    return Invalid("expected ", 1 + description.further_inputs_size(), " inputs but got ",
                   tensors.size(), " inputs for model '", model.name(), "'");
  }
  BW_RETURN_IF_ERROR(AddSource(description, *main, request));
  for (const InputTensor& tensor : tensors) {
    if (&tensor != &*main) {
      BW_RETURN_IF_ERROR(
          Annotate(AddFurtherInput(tensor, request), absl::StrCat("input '", tensor.name, "'")));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadOutputs(const inference::ModelInferRequest& request, AnswerForm& form) {
  const absl::Span<const OutputTensor> known = OutputTensors();
  for (const auto& output : request.outputs()) {
    for (const auto& [name, value] : output.parameters()) {
      if (absl::StartsWith(name, "shared_memory_") || name == "classification") {
        return absl::UnimplementedError(
            absl::StrCat("output '", output.name(), "': ", name, " is not supported"));
      }
    }
    const auto found = std::find_if(known.begin(), known.end(), [&](const OutputTensor& tensor) {
      return tensor.name == output.name();
    });
    if (found == known.end()) {
      return Invalid("unexpected inference output '", output.name(), "' for model '",
                     request.model_name(), "'; there are ",
                     absl::StrJoin(known, ", ", [](std::string* out, const OutputTensor& tensor) {
                       absl::StrAppend(out, tensor.name);
                     }));
    }
    const int index = static_cast<int>(found - known.begin());
    // An output that is named twice is returned once.
    if (std::find(form.outputs.begin(), form.outputs.end(), index) == form.outputs.end()) {
      form.outputs.push_back(index);
    }
  }
  for (int i = 0; request.outputs().empty() && i < static_cast<int>(known.size()); ++i) {
    if (!known[static_cast<size_t>(i)].if_named) {
      form.outputs.push_back(i);
    }
  }
  return absl::OkStatus();
}

// Switches on the options that the requested outputs need.
void AskForOutputs(const AnswerForm& form, v1::DecodeOptions& options) {
  for (const int index : form.outputs) {
    const v1::Attention needed = OutputTensors()[static_cast<size_t>(index)].attention;
    if (needed > v1::ATTENTION_NONE && needed > options.attention()) {
      options.set_attention(needed);
    }
    if (OutputTensors()[static_cast<size_t>(index)].words) {
      options.set_words(true);
    }
  }
}

// The width of the answer's tensors: the hypotheses that the request asks for, even if the search
// finds fewer.
int NBest(const engine::DecodeModel& model, const v1::DecodeOptions& options) {
  v1::DecodeOptions merged = options;
  bundle::ApplyDefaults(model.config().default_options(), merged);
  return options.has_n_best() ? merged.n_best() : std::min(merged.n_best(), merged.beam_size());
}

}  // namespace

absl::StatusOr<InferJob> ReadInferRequest(const serving::ModelRegistry& models,
                                          const inference::ModelInferRequest& request) {
  InferJob result;
  BW_ASSIGN_OR_RETURN(result.job.model,
                      FindModel(models, request.model_name(), request.model_version()));
  BW_ASSIGN_OR_RETURN(Parameters parameters, ReadParameters(request.parameters()));
  BW_ASSIGN_OR_RETURN(const std::vector<InputTensor> tensors, ReadInputs(request));
  const engine::DecodeModel& model = *result.job.model;
  BW_RETURN_IF_ERROR(ReadOutputs(request, result.form));
  AskForOutputs(result.form, parameters.options);
  // Before n_best is read, which may be out of range. Patterns are compiled with the call, on
  // another thread.
  v1::DecodeOptions checked = parameters.options;
  checked.clear_regex();
  checked.clear_json_schema();
  BW_RETURN_IF_ERROR(engine::CheckOptions(model, checked));
  BW_RETURN_IF_ERROR(AddSources(model, tensors, result.job.request, parameters.options));
  result.form.id = request.id();
  result.form.n_best = NBest(model, parameters.options);
  *result.job.request.mutable_options() = std::move(parameters.options);
  result.timeout = parameters.timeout;
  result.priority = parameters.priority;
  return result;
}

}  // namespace beamwright::oip
