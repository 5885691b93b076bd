#include "bench/decode/precision.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/bundle/bundle.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "include/beamwright/engine.h"
#include "ops/base/json_writer.h"
#include "ops/base/status.h"

namespace beamwright::bench {
namespace {

using google::protobuf::util::JsonStringToMessage;
using google::protobuf::util::MessageToJsonString;

bool ParseRequest(const std::string& line, DecodeRequest& request) {
  google::protobuf::Struct object;
  if (!JsonStringToMessage(line, &object).ok() || object.fields().count("source") == 0) {
    return false;
  }
  request.source.set_text(object.fields().at("source").string_value());
  const auto options = object.fields().find("options");
  std::string json;
  return options == object.fields().end() || (MessageToJsonString(options->second, &json).ok() &&
                                              JsonStringToMessage(json, &request.options).ok());
}

using Answers = std::vector<v1::Decoded>;

absl::StatusOr<Answers> DecodeAll(const std::string& folder, v1::Precision precision,
                                  const std::vector<DecodeRequest>& requests,
                                  std::string& numerics) {
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder));
  BW_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::DecodeModel> model,
                      engine::DecodeModel::Compile(std::move(bundle), {precision}));
  numerics = model->numerics();
  engine::EngineOptions options;
  options.max_queue = static_cast<int>(requests.size()) + 1;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine, engine::Engine::Start(options));
  std::vector<absl::StatusOr<v1::Decoded>> results(requests.size());
  absl::BlockingCounter left(static_cast<int>(requests.size()));
  for (size_t i = 0; i < requests.size(); ++i) {
    engine->Decode(model, requests[i].source, requests[i].options, {},
                   [&results, &left, i](absl::StatusOr<v1::Decoded> decoded) {
                     results[i] = std::move(decoded);
                     left.DecrementCount();
                   });
  }
  left.Wait();
  Answers answers;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) {
      return Annotate(results[i].status(), absl::StrCat("request ", i));
    }
    answers.push_back(*std::move(results[i]));
  }
  return answers;
}

bool SameTokens(const v1::Hypothesis& a, const v1::Hypothesis& b) {
  return std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end());
}

PrecisionShift Compare(const Answers& exact, const Answers& answers) {
  PrecisionShift shift;
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto& from = exact[i].hypotheses();
    const auto& to = answers[i].hypotheses();
    ++shift.requests;
    if (std::equal(from.begin(), from.end(), to.begin(), to.end(), SameTokens)) {
      ++shift.equal_lists;
    }
    if (from.empty() || to.empty() || !SameTokens(from[0], to[0])) {
      continue;
    }
    ++shift.equal_best;
    const double distance = std::fabs(double{from[0].score()} - double{to[0].score()});
    shift.mean_score_shift += distance;
    shift.largest_score_shift = std::max(shift.largest_score_shift, distance);
  }
  shift.mean_score_shift /= static_cast<double>(std::max<int64_t>(shift.equal_best, 1));
  return shift;
}

double Share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(whole, 1));
}

}  // namespace

absl::StatusOr<std::vector<DecodeRequest>> ReadGoldenRequests(const std::string& bundle) {
  const std::string path = bundle + "/golden.jsonl";
  std::ifstream in(path);
  if (!in.is_open()) {
    return absl::NotFoundError(absl::StrCat("cannot read '", path, "'; give --sources"));
  }
  std::vector<DecodeRequest> requests;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.empty() && !ParseRequest(line, requests.emplace_back())) {
      return Invalid("'", path, "' line ", number, " is not {\"source\": ..., \"options\": ...}");
    }
  }
  return requests;
}

absl::StatusOr<std::vector<PrecisionShift>> MeasurePrecisions(
    const std::string& bundle, const std::vector<DecodeRequest>& requests) {
  std::string numerics;
  BW_ASSIGN_OR_RETURN(const Answers exact,
                      DecodeAll(bundle, v1::PRECISION_F32, requests, numerics));
  std::vector<PrecisionShift> shifts;
  for (const v1::Precision precision :
       {v1::PRECISION_BF16, v1::PRECISION_BF16_DOT, v1::PRECISION_BF16_AMX, v1::PRECISION_INT8_CORE,
        v1::PRECISION_INT8}) {
    BW_ASSIGN_OR_RETURN(const Answers answers, DecodeAll(bundle, precision, requests, numerics));
    shifts.push_back(Compare(exact, answers));
    shifts.back().numerics = numerics;
  }
  return shifts;
}

std::string ShiftsText(const std::vector<PrecisionShift>& shifts) {
  std::string text = "  requests  1-best equal  n-best equal  |d score| mean   largest  numerics\n";
  for (const PrecisionShift& shift : shifts) {
    absl::StrAppendFormat(&text, "%10d %12.2f%% %12.2f%% %15.6f %9.6f  %s\n", shift.requests,
                          100 * Share(shift.equal_best, shift.requests),
                          100 * Share(shift.equal_lists, shift.requests), shift.mean_score_shift,
                          shift.largest_score_shift, shift.numerics);
  }
  return text;
}

std::string ShiftsJson(const std::vector<PrecisionShift>& shifts) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginArray();
  for (const PrecisionShift& shift : shifts) {
    json.BeginObject();
    json.Key("numerics").String(shift.numerics);
    json.Key("requests").Int(shift.requests);
    json.Key("equal_best").Int(shift.equal_best);
    json.Key("equal_lists").Int(shift.equal_lists);
    json.Key("mean_score_shift").Double(shift.mean_score_shift);
    json.Key("largest_score_shift").Double(shift.largest_score_shift);
    json.EndObject();
  }
  json.EndArray();
  return json.text() + "\n";
}

}  // namespace beamwright::bench
