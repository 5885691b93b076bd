// Requests of the Open Inference Protocol as they come off the wire, one after the other, so that
// some of them are a sequence: whatever they hold, each is answered with tensors of the form that
// the protocol gives them, or refused, and when the server stops none is left.
//
// An input is a line "MODEL VERSION", which requests in JSON are for, and requests
// (served_models.h): one that begins with "{" is the body of an HTTP request, with its binary data
// behind a zero byte if there is one; all else is a serialized inference.ModelInferRequest.
#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "ops/base/check.h"
#include "ops/base/rapidjson.h"
#include "server/http/routes.h"
#include "server/oip/input_tensor.h"
#include "server/oip/service.h"
#include "tests/fuzz/served_models.h"

namespace beamwright::oip {
namespace {

constexpr size_t kMostParts = 9;
constexpr int kMostSources = 4;
// Less than what libFuzzer takes for an input that hangs.
constexpr absl::Duration kLongestWait = absl::Seconds(8);
// Reads text. It is asked what it makes of a request, not to decode: that is another target's.
constexpr char kTextModel[] = "g2p-en";

using Answer = absl::StatusOr<inference::ModelInferResponse>;

// How many bytes the elements of an output have, from their beginning on: texts say it themselves.
void CheckElements(const inference::ModelInferResponse::InferOutputTensor& output,
                   absl::string_view raw) {
  const Datatype* const datatype = FindDatatype(output.datatype());
  BW_CHECK(datatype != nullptr);
  int64_t count = 1;
  for (const int64_t extent : output.shape()) {
    BW_CHECK(extent >= 0);
    count *= extent;
  }
  if (datatype->size > 0) {
    BW_CHECK(static_cast<int64_t>(raw.size()) == count * datatype->size);
    return;
  }
  for (; count > 0; --count) {
    uint32_t size = 0;
    BW_CHECK(raw.size() >= sizeof(size));
    std::memcpy(&size, raw.data(), sizeof(size));
    raw.remove_prefix(sizeof(size));
    BW_CHECK(raw.size() >= size);
    raw.remove_prefix(size);
  }
  BW_CHECK(raw.empty());
}

void CheckAnswer(const inference::ModelInferRequest& request,
                 const inference::ModelInferResponse& response) {
  BW_CHECK(response.id() == request.id() && response.model_name() == request.model_name());
  BW_CHECK(response.outputs_size() == response.raw_output_contents_size());
  BW_CHECK(response.outputs_size() > 0);
  for (int i = 0; i < response.outputs_size(); ++i) {
    CheckElements(response.outputs(i), response.raw_output_contents(i));
  }
}

void CheckBody(const http::InferReply& reply) {
  BW_CHECK(reply.json_length <= reply.body.size());
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(reply.body.data(), reply.json_length);
  BW_CHECK(!document.HasParseError() && document["outputs"].IsArray());
}

class Client {
 public:
  Client(fuzzing::ServedModels& models, absl::string_view line)
      : models_(models), service_(models.core()) {
    const std::pair<absl::string_view, absl::string_view> names =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    model_ = std::string(names.first);
    version_ = std::string(names.second);
  }

  void Send(absl::string_view part) {
    if (absl::StartsWith(part, "{")) {
      SendJson(part);
      return;
    }
    inference::ModelInferRequest request;
    if (request.ParseFromArray(part.data(), static_cast<int>(part.size()))) {
      Ask(request).status().IgnoreError();
    }
  }

 private:
  void SendJson(absl::string_view part) {
    std::string body(part);
    std::string json_length;
    if (const size_t end = body.find('\0'); end != std::string::npos) {
      body.erase(end, 1);
      json_length = std::to_string(end);
    }
    absl::StatusOr<http::InferBody> read = http::ParseInferBody(body, json_length);
    if (!read.ok()) {
      return;
    }
    read->request.set_model_name(model_);
    read->request.set_model_version(version_);
    if (const Answer answer = Ask(read->request); answer.ok()) {
      CheckBody(http::WriteInferBody(*read, *answer));
    }
  }

  Answer Ask(const inference::ModelInferRequest& request) {
    const absl::StatusOr<InferJob> job = ReadInferRequest(models_.core().models(), request);
    if (job.ok() &&
        (job->job.model->name() == kTextModel || job->job.request.sources_size() > kMostSources)) {
      return absl::UnimplementedError("read is all that it is here");
    }
    absl::Notification done;
    Answer told = absl::UnknownError("no answer");
    service_.Infer(request, serving::Caller{serving::Method::kModelInfer}, [&](Answer answer) {
      told = std::move(answer);
      done.Notify();
    });
    BW_CHECK(done.WaitForNotificationWithTimeout(kLongestWait));
    BW_CHECK(!absl::IsUnknown(told.status()));
    BW_CHECK(job.ok() || !told.ok());
    if (told.ok()) {
      CheckAnswer(request, *told);
    }
    return told;
  }

  fuzzing::ServedModels& models_;
  Service service_;
  std::string model_;
  std::string version_;
};

fuzzing::ServedModels& Models() {
  static auto& models = *new fuzzing::ServedModels({BEAMWRIGHT_SOURCE_DIR "/models/g2p-en"});
  return models;
}

void Serve(absl::string_view input) {
  fuzzing::ServedModels& models = Models();
  const std::vector<absl::string_view> parts = fuzzing::Parts(input, kMostParts);
  {
    Client client(models, parts[0]);
    for (size_t i = 1; i < parts.size(); ++i) {
      client.Send(parts[i]);
    }
  }
  BW_CHECK(models.HaveAnswered());
}

}  // namespace
}  // namespace beamwright::oip

// Before the first input: models take seconds to load, which an input may not.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // it has a line for each text that is not UTF-8
  beamwright::oip::Models();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  beamwright::oip::Serve({reinterpret_cast<const char*>(data), size});
  return 0;
}
