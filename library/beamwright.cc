// A model in the caller's process, and the C interface over it. Nothing is thrown across the
// interface.
//
// 1. ProcessModel::Load compiles the bundle, tries it and starts an engine, on a thread that ends
// with
//    it: the caller's thread gets no OpenMP threads, which a fork would leave behind.
// 2. Decode, Score and Align start all sources of a request and wait until all are answered
//    (AnswerAll), with the same responses as the server's. The engine refuses no request for its
//    deadline in advance: a server does so because another one may be in time, and here there is no
//    other.
// 3. Each call of the C interface checks that the process is not a fork of one that has loaded a
//    model (CheckForks): the engine's threads do not survive a fork.
// 4. Call parses the request within the bounds of messages (ReadRequest), calls the model, and
//    serialises the response into a buffer of malloc's, which the caller frees.
// 5. A failure is a google.rpc.Status in the same buffer, with its message behind it as a C string
//    (Fail). A lack of memory needs none: its message is a constant.
//
// Options that a newer program passes are read as far as this library knows them, by the struct's
// size.
#include "include/beamwright/beamwright.h"

#include <google/protobuf/stubs/logging.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/time.h"
#include "engine/bundle/repository.h"
#include "engine/bundle/rules.h"
#include "engine/load_model.h"
#include "engine/model/decode_model.h"
#include "engine/request/answers.h"
#include "engine/status/fault.h"
#include "engine/status/wire_status.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"
#include "ops/base/steady_time.h"

namespace beamwright::library {

// ProcessModel: a model with a separate engine, and its calls as those of the server: the same
// messages in and out, the same errors, answers of the same bits. The C interface
// (include/beamwright/beamwright.h) is a thin layer above it.

struct LoadOptions {
  int num_threads = 0;  // 0: as many as CPU affinity and cgroup allow
  int max_rows = 1024;
  std::optional<v1::Precision> precision;  // instead of what the bundle says
  int golden_requests = 100;               // below 1: none
};

// Thread-safe.
class ProcessModel {
 public:
  // Loads the bundle at `path`, or the newest version of a model's folder, and tries it out as a
  // server does. It runs on a separate thread: the caller gets no OpenMP
  // threads, which a fork would leave behind.
  static absl::StatusOr<std::unique_ptr<ProcessModel>> Load(const std::string& path,
                                                            const LoadOptions& options);

  // Each waits for its answer, at most until the deadline. A call fails as a whole for faults of
  // the request, or if all of its sources fail; errors are those of the server's calls.
  absl::StatusOr<v1::DecodeResponse> Decode(v1::DecodeRequest request, absl::Time deadline);
  absl::StatusOr<v1::ScoreResponse> Score(v1::ScoreRequest request, absl::Time deadline);
  absl::StatusOr<v1::AlignResponse> Align(v1::AlignRequest request, absl::Time deadline);
  v1::ModelDescription Describe() const { return model_->Describe(); }

 private:
  using ModelPtr = std::shared_ptr<const engine::DecodeModel>;

  ProcessModel(ModelPtr model, std::unique_ptr<engine::Engine> engine)
      : model_(std::move(model)), engine_(std::move(engine)) {}
  static absl::StatusOr<std::unique_ptr<ProcessModel>> LoadHere(const std::string& path,
                                                                const LoadOptions& options);
  // Whether a request asks for this model.
  absl::Status CheckName(const std::string& name, const std::string& version) const;
  engine::CallOptions CallOf(absl::Time deadline);
  absl::StatusOr<v1::ScoreResponse> ScoreAs(v1::ScoreRequest request, absl::Time deadline,
                                            bool aligns);

  const ModelPtr model_;
  const std::unique_ptr<engine::Engine> engine_;
  std::atomic<uint64_t> next_call_{1};
};

// A model in the caller's process: the part of the library that decodes, scores and aligns without
// a server. Load compiles the bundle, tries it and starts an engine; Decode, Score and Align start
// all sources of a request and wait until all are answered (AnswerAll), with the same responses as
// the server's.
//
// Load runs on a thread that ends with it, so that the caller's thread gets no OpenMP threads,
// which a fork would leave behind. The engine refuses no request for its deadline in advance: a
// server does so because another one may be in time, and here there is no other.
namespace {

void Put(v1::Decoded decoded, v1::Result& result) {
  *result.mutable_decoded() = std::move(decoded);
}
void Put(v1::Scored scored, v1::ScoreResult& result) {
  *result.mutable_scored() = std::move(scored);
}

absl::Status AsTheyAre(const absl::Status& status) { return status; }

// The differences between calls that decode, score and align.
struct Terms {
  status::SourceNames names;                            // of sources in the request
  absl::Status (*of)(const absl::Status&) = AsTheyAre;  // an error in the request's terms
};
constexpr Terms kSources = {{"sources", "source"}};
constexpr Terms kScored = {{"sources", ""}};
constexpr Terms kPairs = {{"pairs", ""}, engine::InAlignTerms};

// Starts every source by start(source, done) and waits until all are answered.
template <typename Response, typename Start>
absl::StatusOr<Response> AnswerAll(const engine::DecodeModel& model, int num_sources,
                                   const Terms& terms, const Start& start) {
  Response response;
  response.set_model(model.name());
  response.set_version(model.version());
  response.set_numerics(model.numerics());
  response.mutable_results()->Reserve(num_sources);
  absl::BlockingCounter open(num_sources);
  for (int i = 0; i < num_sources; ++i) {
    start(i, [&open, &terms, &result = *response.add_results()](auto answer) {
      if (answer.ok()) {
        Put(*std::move(answer), result);
      } else {
        *result.mutable_error() = status::ToRpcStatus(terms.of(answer.status()));
      }
      open.DecrementCount();
    });
  }
  open.Wait();
  BW_RETURN_IF_ERROR(status::OutcomeOf(response.results(), terms.names));
  return response;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessModel>> ProcessModel::Load(const std::string& path,
                                                                 const LoadOptions& options) {
  absl::StatusOr<std::unique_ptr<ProcessModel>> model = absl::InternalError("not loaded");
  try {
    std::thread([&] { model = LoadHere(path, options); }).join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what()));
  }
  return model;
}

absl::StatusOr<std::unique_ptr<ProcessModel>> ProcessModel::LoadHere(const std::string& path,
                                                                     const LoadOptions& options) {
  BW_ASSIGN_OR_RETURN(const bundle::ModelFolder folder, bundle::FindModel(path));
  BW_RETURN_IF_ERROR(folder.listed);
  const std::string& bundle = folder.versions[0].path;
  engine::CompileOptions compile;
  compile.precision = options.precision;
  BW_ASSIGN_OR_RETURN(ModelPtr model, engine::LoadModel(bundle, {}, compile));
  BW_RETURN_IF_ERROR(
      Annotate(engine::TryModel(model, bundle, {}, {options.golden_requests, /*warm_up_rows=*/1}),
               absl::StrCat("bundle '", bundle, "'")));
  engine::EngineOptions engine_options;
  engine_options.num_threads = options.num_threads;
  engine_options.num_streams = engine::EngineOptions::kStreamsAsWorkIs;
  engine_options.max_rows = options.max_rows;
  // A forecast spares a server work that another one may do in time. Here is no other.
  engine_options.forecast_deadlines = false;
  BW_ASSIGN_OR_RETURN(auto engine, engine::Engine::Start(engine_options));
  return absl::WrapUnique(new ProcessModel(std::move(model), std::move(engine)));
}

absl::Status ProcessModel::CheckName(const std::string& name, const std::string& version) const {
  if ((!name.empty() && name != model_->name()) ||
      (!version.empty() && version != model_->version())) {
    return absl::NotFoundError(absl::StrCat("Request for unknown model: '", name, "' version '",
                                            version, "' is not found; loaded: '", model_->name(),
                                            "' version '", model_->version(), "'"));
  }
  return absl::OkStatus();
}

engine::CallOptions ProcessModel::CallOf(absl::Time deadline) {
  engine::CallOptions call;
  call.deadline = deadline;
  call.call = next_call_++;
  return call;
}

absl::StatusOr<v1::DecodeResponse> ProcessModel::Decode(v1::DecodeRequest request,
                                                        absl::Time deadline) {
  BW_RETURN_IF_ERROR(CheckName(request.model(), request.version()));
  BW_RETURN_IF_ERROR(engine::CheckNumSources(request.sources_size(), "decode"));
  BW_ASSIGN_OR_RETURN(const auto options, engine::ResolveOptions(*model_, request.options()));
  const engine::CallOptions call = CallOf(deadline);
  return AnswerAll<v1::DecodeResponse>(
      *model_, request.sources_size(), kSources, [&](int source, engine::DecodeCallback done) {
        engine_->DecodeResolved(model_, std::move(*request.mutable_sources(source)), options, call,
                                std::move(done));
      });
}

absl::StatusOr<v1::ScoreResponse> ProcessModel::Score(v1::ScoreRequest request,
                                                      absl::Time deadline) {
  return ScoreAs(std::move(request), deadline, /*aligns=*/false);
}

absl::StatusOr<v1::AlignResponse> ProcessModel::Align(v1::AlignRequest request,
                                                      absl::Time deadline) {
  BW_ASSIGN_OR_RETURN(v1::ScoreRequest score, engine::ToScoreRequest(std::move(request)));
  BW_ASSIGN_OR_RETURN(v1::ScoreResponse response,
                      ScoreAs(std::move(score), deadline, /*aligns=*/true));
  return engine::ToAlignResponse(std::move(response));
}

absl::StatusOr<v1::ScoreResponse> ProcessModel::ScoreAs(v1::ScoreRequest request,
                                                        absl::Time deadline, bool aligns) {
  const Terms& terms = aligns ? kPairs : kScored;
  BW_RETURN_IF_ERROR(CheckName(request.model(), request.version()));
  BW_RETURN_IF_ERROR(terms.of(engine::CheckNumSources(request.sources_size(), "score")));
  BW_RETURN_IF_ERROR(terms.of(engine::CheckScoreOptions(*model_, request.options())));
  const engine::CallOptions call = CallOf(deadline);
  return AnswerAll<v1::ScoreResponse>(
      *model_, request.sources_size(), terms, [&](int source, engine::ScoreCallback done) {
        engine_->Score(model_, std::move(*request.mutable_sources(source)), request.options(), call,
                       std::move(done));
      });
}

}  // namespace beamwright::library

struct beamwright_model {
  std::unique_ptr<beamwright::library::ProcessModel> model;
};

namespace beamwright::library {
namespace {

// Whether this process was forked from one that has loaded a model. The engine's threads do not
// survive a fork, and locks that they held stay held in the child: a thread that waited there for
// an answer, or for such a lock, would wait for ever.

// Says that a model is loaded in this process from here on. FailedPrecondition as CheckForks.
absl::Status EnterProcess();

// FailedPrecondition (reason FORKED) in a process that was forked after EnterProcess. Takes no
// lock and allocates only for the error.
absl::Status CheckForks();

// Set by the first load; a fork makes kParent of kHere in the child.
enum State { kUnused, kHere, kParent };
std::atomic<int> state{kUnused};

void AfterForkInChild() {
  if (state.load(std::memory_order_relaxed) == kHere) {
    state.store(kParent, std::memory_order_relaxed);
  }
}

absl::Status EnterProcess() {
  BW_RETURN_IF_ERROR(CheckForks());
  // Once in the life of the library; what is unloaded is taken from the list by the C library.
  static const int error = pthread_atfork(nullptr, nullptr, AfterForkInChild);
  if (error != 0) {
    return absl::ResourceExhaustedError("no memory to watch for forks");
  }
  state.store(kHere, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CheckForks() {
  if (state.load(std::memory_order_relaxed) != kParent) {
    return absl::OkStatus();
  }
  return status::WithReason(
      absl::FailedPreconditionError(
          "this process was forked from one that had loaded a model, and the threads that decode "
          "do not survive a fork; load models after the fork alone, or start processes by exec "
          "('spawn' or 'forkserver' in Python's multiprocessing)"),
      status::reason::kForked);
}

constexpr char kNoMemory[] = "out of memory";

// Sizes of beamwright_options as they were released, by their last fields.
constexpr size_t kFirstOptions =
    offsetof(beamwright_options, golden_requests) + sizeof(beamwright_options::golden_requests);

// Puts `bytes`, and behind them the text of a failure, into the buffer.
bool Fill(const std::string& bytes, const std::string* message, beamwright_buffer& buffer) {
  const size_t size = bytes.size() + (message == nullptr ? 0 : message->size() + 1);
  char* data = static_cast<char*>(std::malloc(size == 0 ? 1 : size));
  if (data == nullptr) {
    return false;
  }
  std::memcpy(data, bytes.data(), bytes.size());
  buffer = {data, bytes.size(), nullptr, nullptr};
  if (message != nullptr) {
    std::memcpy(data + bytes.size(), message->c_str(), message->size() + 1);
    buffer.message = data + bytes.size();
  }
  return true;
}

int Fail(const absl::Status& why, beamwright_buffer& buffer) {
  const google::rpc::Status wire = status::ToRpcStatus(why, status::Room::kBody);
  if (Fill(wire.SerializeAsString(), &wire.message(), buffer)) {
    return wire.code();
  }
  buffer = {nullptr, 0, kNoMemory, nullptr};
  return BEAMWRIGHT_RESOURCE_EXHAUSTED;
}

absl::Status Succeed(const google::protobuf::Message& response, beamwright_buffer& buffer) {
  if (response.ByteSizeLong() > size_t{std::numeric_limits<int32_t>::max()}) {
    return status::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat("the reply has ", response.ByteSizeLong(),
                         " bytes, more than a message can hold; send fewer sources a call")),
        status::reason::kReplyTooLarge);
  }
  return Fill(response.SerializeAsString(), nullptr, buffer) ? absl::OkStatus()
                                                             : status::OutOfMemory();
}

// Runs what fills the buffer, and fills it with why that failed.
template <typename Body>
int Guarded(beamwright_buffer& buffer, const Body& body) {
  buffer = {nullptr, 0, nullptr, nullptr};
  try {
    if (absl::Status status = body(); !status.ok()) {
      return Fail(status, buffer);
    }
    return BEAMWRIGHT_OK;
  } catch (const std::bad_alloc&) {
    buffer = {nullptr, 0, kNoMemory, nullptr};
    return BEAMWRIGHT_RESOURCE_EXHAUSTED;
  }
}

absl::Status ReadRequest(const void* bytes, size_t size, google::protobuf::Message& request) {
  // protobuf writes to standard error as well if a text is not UTF-8.
  const google::protobuf::LogSilencer silence;
  bool is_valid = size <= size_t{std::numeric_limits<int32_t>::max()};
  if (is_valid) {
    google::protobuf::io::CodedInputStream coded(static_cast<const uint8_t*>(bytes),
                                                 static_cast<int>(size));
    BW_RETURN_IF_ERROR(bundle::CheckBounds(*request.GetDescriptor(), coded));
    is_valid = request.ParseFromArray(bytes, static_cast<int>(size));
  }
  return is_valid ? absl::OkStatus()
                  : Invalid("the ", size, " bytes are not a serialised ",
                            request.GetDescriptor()->full_name());
}

template <typename Request, typename Response>
int Call(const beamwright_model& model, const void* bytes, size_t size, int64_t timeout_ms,
         beamwright_buffer& answer,
         absl::StatusOr<Response> (ProcessModel::*method)(Request, absl::Time)) {
  return Guarded(answer, [&]() -> absl::Status {
    BW_RETURN_IF_ERROR(CheckForks());
    if (timeout_ms < 0) {
      return status::InvalidField("timeout_ms", "is ", timeout_ms, "; 0 stands for no limit");
    }
    const absl::Time deadline =
        timeout_ms == 0 ? absl::InfiniteFuture() : SteadyNow() + absl::Milliseconds(timeout_ms);
    Request request;
    BW_RETURN_IF_ERROR(ReadRequest(bytes, size, request));
    BW_ASSIGN_OR_RETURN(const Response response,
                        (*model.model.*method)(std::move(request), deadline));
    return Succeed(response, answer);
  });
}

absl::StatusOr<LoadOptions> ReadOptions(const beamwright_options* given) {
  LoadOptions options;
  if (given == nullptr) {
    return options;
  }
  if (given->struct_size < kFirstOptions) {
    return status::InvalidField("options.struct_size", "is ", given->struct_size, "; sizeof(",
                                "beamwright_options) is ", sizeof(beamwright_options));
  }
  constexpr int kMost = 1 << 20;
  if (given->num_threads < 0 || given->num_threads > kMost) {
    return status::InvalidField("options.num_threads", given->num_threads, " is outside [0, ",
                                kMost, "]");
  }
  if (given->max_rows < 0 || given->max_rows > kMost) {
    return status::InvalidField("options.max_rows", given->max_rows, " is outside [0, ", kMost,
                                "]");
  }
  if (given->golden_requests < -1) {
    return status::InvalidField("options.golden_requests", given->golden_requests, " is below -1");
  }
  options.num_threads = given->num_threads;
  options.max_rows = given->max_rows == 0 ? options.max_rows : given->max_rows;
  if (given->golden_requests != 0) {
    options.golden_requests = given->golden_requests;
  }
  if (given->precision != nullptr) {
    const absl::StatusOr<v1::Precision> precision = engine::ParsePrecision(given->precision);
    if (!precision.ok()) {
      return status::InvalidField("options.precision", precision.status().message());
    }
    options.precision = *precision;
  }
  return options;
}

}  // namespace

}  // namespace beamwright::library

using beamwright::library::Call;
using beamwright::library::Guarded;
using beamwright::library::ProcessModel;

extern "C" {

int beamwright_abi_version(void) { return BEAMWRIGHT_ABI_VERSION; }

const char* beamwright_version(void) { return BEAMWRIGHT_VERSION; }

int beamwright_load(const char* path, const beamwright_options* options, beamwright_model** model,
                    beamwright_buffer* error) {
  *model = nullptr;
  return Guarded(*error, [&]() -> absl::Status {
    BW_ASSIGN_OR_RETURN(const auto read, beamwright::library::ReadOptions(options));
    BW_RETURN_IF_ERROR(beamwright::library::EnterProcess());
    auto made = std::make_unique<beamwright_model>();
    BW_ASSIGN_OR_RETURN(made->model, ProcessModel::Load(path, read));
    *model = made.release();
    return absl::OkStatus();
  });
}

int beamwright_decode(beamwright_model* model, const void* request, size_t size, int64_t timeout_ms,
                      beamwright_buffer* answer) {
  return Call(*model, request, size, timeout_ms, *answer, &ProcessModel::Decode);
}

int beamwright_score(beamwright_model* model, const void* request, size_t size, int64_t timeout_ms,
                     beamwright_buffer* answer) {
  return Call(*model, request, size, timeout_ms, *answer, &ProcessModel::Score);
}

int beamwright_align(beamwright_model* model, const void* request, size_t size, int64_t timeout_ms,
                     beamwright_buffer* answer) {
  return Call(*model, request, size, timeout_ms, *answer, &ProcessModel::Align);
}

int beamwright_describe(beamwright_model* model, beamwright_buffer* answer) {
  return Guarded(*answer, [&]() -> absl::Status {
    BW_RETURN_IF_ERROR(beamwright::library::CheckForks());
    return beamwright::library::Succeed(model->model->Describe(), *answer);
  });
}

void beamwright_buffer_free(beamwright_buffer* buffer) {
  if (buffer != nullptr) {
    std::free(const_cast<void*>(buffer->data));
    *buffer = {nullptr, 0, nullptr, nullptr};
  }
}

void beamwright_free(beamwright_model* model) {
  // Its threads are the parent's; to wait for them would never end.
  if (beamwright::library::CheckForks().ok()) {
    delete model;
  }
}

}  // extern "C"
