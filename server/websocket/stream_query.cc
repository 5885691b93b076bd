// Reads the query of a WebSocket's address into the configuration of a stream:
// ws://host:port/?model=asr&sample_rate=16000. ReadStreamQuery splits and unescapes the parameters,
// Set sets each; faults are collected, but not without end. Values of `options` and `endpoint` are
// JSON, checked as in a request body.
//
// What a client leaves out is chosen so that clients of sherpa-onnx work without a change: the
// default model or the only one with sound, f32 samples of the model's rate, and segments where the
// model can make them.
#include "server/websocket/stream_query.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/bounds.h"
#include "engine/model/parts.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "server/http/request_json.h"
#include "server/http/request_parts.h"
#include "server/serving/sound_windows.h"

namespace beamwright::websocket {
namespace {

constexpr int kMaxTimeoutMs = 24 * 3600 * 1000;
// The answer is not to be a hundred times as large as the question.
constexpr size_t kMostWrong = 20;
constexpr char kParameters[] =
    "model, version, samples, sample_rate, provisional, endpoint, language, options, timeout_ms";

// A name or a value of a query, where '+' is a space (URL Standard, 5.1). False: a wrong escape.
bool ReadPart(absl::string_view text, std::string& plain) {
  return http::Unescape(absl::StrReplaceAll(text, {{"+", " "}}), plain);
}

// A message in JSON, whose faults are those of the parameter.
void ReadJson(const std::string& name, const std::string& text, google::protobuf::Message& message,
              status::Faults& faults) {
  if (!absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    faults.Add(name, "must be a JSON object");
    return;
  }
  const absl::Status status = http::ReadRequest(text, message);
  for (const status::Fault& fault : status::FaultsOf(status)) {
    faults.Add(fault.field.empty() ? name : absl::StrCat(name, ".", fault.field), fault.text);
  }
}

// Sets one parameter; false: there is no such one.
bool Set(const std::string& name, const std::string& value, StreamQuery& query,
         status::Faults& faults) {
  v1::RecognizeConfig& config = query.config;
  if (name == "model") {
    config.set_model(value);
  } else if (name == "version") {
    config.set_version(value);
  } else if (name == "samples") {
    if (value != "f32" && value != "pcm16") {
      faults.Add(name, "'", value, "' is neither f32 nor pcm16");
    }
    config.mutable_audio()->set_samples(value == "pcm16" ? v1::SAMPLE_FORMAT_PCM16
                                                         : v1::SAMPLE_FORMAT_F32);
  } else if (name == "sample_rate") {
    int rate = 0;
    if (!absl::SimpleAtoi(value, &rate)) {
      faults.Add(name, "'", value, "' is not a whole number");
    }
    config.mutable_audio()->set_sample_rate(rate);
  } else if (name == "provisional") {
    if (value != "true" && value != "false" && value != "n_best") {
      faults.Add(name, "'", value, "' is neither true, false nor n_best");
    }
    config.set_provisional(value != "false");
    config.set_provisional_n_best(value == "n_best");
  } else if (name == "endpoint") {
    config.clear_endpoint();
    if (value != "none") {
      ReadJson(name, value, *config.mutable_endpoint(), faults);
    }
  } else if (name == "language") {
    config.set_language(value);
  } else if (name == "options") {
    ReadJson(name, value, *config.mutable_options(), faults);
  } else if (name == "timeout_ms") {
    int ms = 0;
    if (!absl::SimpleAtoi(value, &ms) || ms < 1 || ms > kMaxTimeoutMs) {
      faults.Add(name, "'", value, "' is outside [1, ", kMaxTimeoutMs, "]");
    }
    query.timeout = absl::Milliseconds(ms);
  } else {
    return false;
  }
  return true;
}

// The name of the only model that takes sound; empty if there is not exactly one.
std::string OnlyModelWithSound(const serving::ModelRegistry& models) {
  std::set<std::string> names;
  for (const serving::ServedModelPtr& model : models.AllListed()) {
    if (model->config().has_sound()) {
      names.insert(model->name());
    }
  }
  return names.size() == 1 ? *names.begin() : "";
}

}  // namespace

absl::StatusOr<StreamQuery> ReadStreamQuery(absl::string_view target,
                                            const std::string& default_model,
                                            const serving::ModelRegistry& models) {
  StreamQuery query;
  query.config.set_provisional(true);
  query.config.mutable_audio()->set_samples(v1::SAMPLE_FORMAT_F32);
  bool has_endpoint = false;
  status::Faults faults;
  const size_t mark = target.find('?');
  if (mark != absl::string_view::npos) {
    for (const absl::string_view pair : absl::StrSplit(target.substr(mark + 1), '&')) {
      if (pair.empty()) {
        continue;
      }
      if (faults.size() >= kMostWrong) {
        break;
      }
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(pair, absl::MaxSplits('=', 1));
      std::string name;
      std::string value;
      if (!ReadPart(parts.first, name) || !ReadPart(parts.second, value)) {
        faults.Add(parts.first, "has a '%' without two hexadecimal digits, or a NUL");
        continue;
      }
      has_endpoint = has_endpoint || name == "endpoint";
      if (!Set(name, value, query, faults)) {
        faults.Add(name, "is not a parameter of a stream; there are ", kParameters);
      }
    }
  }
  BW_RETURN_IF_ERROR(status::OkOrInvalid(faults));
  BW_RETURN_IF_ERROR(bundle::CheckBounds(query.config));
  if (query.config.model().empty()) {
    query.config.set_model(default_model.empty() ? OnlyModelWithSound(models) : default_model);
  }
  BW_ASSIGN_OR_RETURN(const serving::ModelPtr model,
                      models.Lookup(query.config.model(), query.config.version()));
  if (model->parts().sound == nullptr) {
    return status::InvalidField("model", "the bundle of '", model->name(),
                                "' does not say how sound becomes features (sound)");
  }
  // Clients of sherpa-onnx send sound as the model was trained on, and expect segments.
  if (!query.config.audio().has_sample_rate()) {
    query.config.mutable_audio()->set_sample_rate(model->parts().sound->sample_rate());
  }
  if (!has_endpoint && serving::TakesEndpoint(*model)) {
    query.config.mutable_endpoint();
  }
  return query;
}

}  // namespace beamwright::websocket
