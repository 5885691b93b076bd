// Writes a decoded answer as tensors of the Open Inference protocol. A tensor is rectangular, so
// hypotheses are padded: [sources, n_best] for texts and scores, [sources, n_best, tokens] for
// values per token, one axis more for attention. kOutputs lists the tensors with what they are
// padded with; num_hypotheses and lengths say how much is not padding.
//
// 1. Measure finds the extents: the largest number of hypotheses, tokens and positions. The size of
//    all tensors is bounded before one is written: a long answer among many short ones pads all of
//    them.
// 2. Elements writes one tensor, source by source (AppendHypothesis, AppendTokens), as raw bytes:
//    little-endian numbers, strings with their length in four bytes before them.
#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/base/check.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"
#include "server/oip/infer.h"
#include "server/oip/input_tensor.h"

namespace beamwright::oip {
namespace {

using inference::ModelInferResponse;
using Hypotheses = google::protobuf::RepeatedPtrField<v1::Hypothesis>;

constexpr int32_t kNoId = -1;
constexpr double kNoScore = -std::numeric_limits<double>::infinity();

constexpr OutputTensor kOutputs[] = {
    {"text", "BYTES", 2, "hypotheses as text, best first; padded with empty text"},
    {"ids", "INT32", 3, "their tokens with the end token; padded with -1"},
    {"scores", "FP64", 2, "what they are ranked by; padded with minus infinity"},
    {"log_probs", "FP64", 2, "sums of their log-probabilities; padded with minus infinity"},
    {"lengths", "INT32", 2, "their numbers of tokens; padded with 0"},
    {"num_hypotheses", "INT32", 1, "how many there are for each source"},
    {"token_log_probs", "FP32", 3, "log-probability of each token; padded with 0", true},
    {"token_frames", "INT32", 3, "first frame of each token, of searches by frames; padded with -1",
     true},
    {"token_durations", "INT32", 3, "frames of each token; padded with 0", true},
    {"alignment", "INT32", 3, "source position of each token; padded with -1", true,
     v1::ATTENTION_HARD},
    {"attention", "FP32", 4, "weight of each source position for each token; padded with 0", true,
     v1::ATTENTION_SOFT},
    {"words", "BYTES", 2, "words of each text in JSON; padded with empty text", true,
     v1::ATTENTION_NONE, true},
};

// Extents of the tensors of an answer.
struct Extents {
  int sources = 0;
  int n_best = 0;
  int tokens = 0;
  int positions = 0;  // of sources
};

std::string WordsJson(const v1::Hypothesis& hypothesis) {
  JsonWriter json;
  json.BeginArray();
  for (const v1::Word& word : hypothesis.words()) {
    json.BeginObject().Key("text").String(word.text());
    if (word.has_begin_ms()) {
      json.Key("begin_ms").Double(word.begin_ms()).Key("end_ms").Double(word.end_ms());
    }
    json.Key("confidence").Double(word.confidence());
    if (word.has_posterior()) {
      json.Key("posterior").Double(word.posterior());
    }
    json.Key("first_token").Int(word.first_token()).Key("num_tokens").Int(word.num_tokens());
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

void AppendString(absl::string_view text, std::string& raw) {
  const auto size = static_cast<uint32_t>(text.size());
  raw.append(reinterpret_cast<const char*>(&size), sizeof(size));
  raw.append(text.data(), text.size());
}

template <typename T>
void AppendNumber(T value, std::string& raw) {
  raw.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A row of `width` numbers: those given, then `padding`.
template <typename T>
void AppendRow(absl::Span<const T> given, int width, T padding, std::string& raw) {
  if (!given.empty()) {
    raw.append(reinterpret_cast<const char*>(given.data()), given.size() * sizeof(T));
  }
  for (int i = static_cast<int>(given.size()); i < width; ++i) {
    AppendNumber(padding, raw);
  }
}

template <typename T>
absl::Span<const T> View(const google::protobuf::RepeatedField<T>& field) {
  return {field.data(), static_cast<size_t>(field.size())};
}

// One number for each token, or for each token and source position.
void AppendTokens(absl::string_view output, const v1::Hypothesis& hypothesis,
                  const Extents& extents, std::string& raw) {
  if (output == "ids") {
    AppendRow(View(hypothesis.tokens()), extents.tokens, kNoId, raw);
  } else if (output == "alignment") {
    AppendRow(View(hypothesis.alignment()), extents.tokens, kNoId, raw);
  } else if (output == "token_frames") {
    AppendRow(View(hypothesis.token_frames()), extents.tokens, int32_t{-1}, raw);
  } else if (output == "token_durations") {
    AppendRow(View(hypothesis.token_durations()), extents.tokens, int32_t{0}, raw);
  } else if (output == "token_log_probs") {
    AppendRow(View(hypothesis.token_log_probs()), extents.tokens, 0.0f, raw);
  } else {  // attention
    const v1::Matrix& weights = hypothesis.attention();
    const auto columns = static_cast<size_t>(weights.columns());
    for (int token = 0; token < extents.tokens; ++token) {
      const bool given = token < weights.rows();
      AppendRow(given
                    ? View(weights.values()).subspan(static_cast<size_t>(token) * columns, columns)
                    : absl::Span<const float>(),
                extents.positions, 0.0f, raw);
    }
  }
}

// One hypothesis, or the padding in its place (null).
void AppendHypothesis(const OutputTensor& tensor, const v1::Hypothesis* hypothesis,
                      const Extents& extents, std::string& raw) {
  const absl::string_view output = tensor.name;
  const bool given = hypothesis != nullptr;
  if (output == "text") {
    AppendString(given ? absl::string_view(hypothesis->text()) : "", raw);
  } else if (output == "words") {
    AppendString(given ? WordsJson(*hypothesis) : "", raw);
  } else if (tensor.rank >= 3) {
    AppendTokens(output, given ? *hypothesis : v1::Hypothesis::default_instance(), extents, raw);
  } else if (output == "scores") {
    AppendNumber(given ? hypothesis->score() : kNoScore, raw);
  } else if (output == "log_probs") {
    AppendNumber(given ? hypothesis->log_prob() : kNoScore, raw);
  } else {
    AppendNumber(given ? int32_t{hypothesis->tokens_size()} : 0, raw);  // lengths
  }
}

std::string Elements(const OutputTensor& output, const Extents& extents,
                     const v1::DecodeResponse& response) {
  std::string raw;
  for (const v1::Result& result : response.results()) {
    const Hypotheses& hypotheses = result.decoded().hypotheses();
    if (output.rank == 1) {
      AppendNumber(int32_t{hypotheses.size()}, raw);
      continue;
    }
    for (int i = 0; i < extents.n_best; ++i) {
      AppendHypothesis(output, i < hypotheses.size() ? &hypotheses[i] : nullptr, extents, raw);
    }
  }
  return raw;
}

absl::StatusOr<Extents> Measure(const AnswerForm& form, const v1::DecodeResponse& response) {
  Extents extents{response.results_size(), form.n_best};
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::Result& result = response.results(i);
    BW_CHECK(result.has_decoded());
    extents.n_best = std::max(extents.n_best, result.decoded().hypotheses_size());
    for (const v1::Hypothesis& hypothesis : result.decoded().hypotheses()) {
      extents.tokens = std::max(extents.tokens, hypothesis.tokens_size());
      extents.positions = std::max(extents.positions, hypothesis.attention().columns());
    }
  }
  int64_t bytes = 0;
  for (const int index : form.outputs) {
    const int rank = kOutputs[index].rank;
    const int64_t width =
        int64_t{rank >= 3 ? extents.tokens : 1} * (rank == 4 ? extents.positions : 1);
    const int64_t element = std::max<int64_t>(FindDatatype(kOutputs[index].datatype)->size, 4);
    bytes += int64_t{extents.sources} * extents.n_best * width * element;
  }
  if (bytes > kMaxAnswerBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the answer would have ", bytes, " bytes, padding included; at most ",
                     kMaxAnswerBytes, " are allowed: ask for fewer sources or outputs"));
  }
  return extents;
}

}  // namespace

absl::Span<const OutputTensor> OutputTensors() { return kOutputs; }

absl::StatusOr<ModelInferResponse> WriteInferResponse(const AnswerForm& form,
                                                      const v1::DecodeResponse& response) {
  BW_ASSIGN_OR_RETURN(const Extents extents, Measure(form, response));
  ModelInferResponse answer;
  answer.set_model_name(response.model());
  answer.set_model_version(response.version());
  answer.set_id(form.id);
  (*answer.mutable_parameters())["numerics"].set_string_param(response.numerics());
  for (const int index : form.outputs) {
    const OutputTensor& output = kOutputs[index];
    auto& tensor = *answer.add_outputs();
    tensor.set_name(std::string(output.name));
    tensor.set_datatype(std::string(output.datatype));
    tensor.add_shape(extents.sources);
    tensor.add_shape(output.rank == 1 ? 1 : extents.n_best);
    if (output.rank >= 3) {
      tensor.add_shape(extents.tokens);
    }
    if (output.rank == 4) {
      tensor.add_shape(extents.positions);
    }
    *answer.add_raw_output_contents() = Elements(output, extents, response);
  }
  return answer;
}

}  // namespace beamwright::oip
