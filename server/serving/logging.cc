// Logs to standard error, as text or JSON lines. Lines are formatted by the thread that logs and
// written by LogWriter's thread, so that a reader of standard error that stops reading does not
// stop the server: lines are dropped then, and counted.
//
// Values of clients are escaped and cut to kMaxValueBytes, so that no client can forge or flood
// lines. AccessLog writes a line per call, or one in one_of, counted separately for successes and
// failures, so that rare failures are not lost among many successes.
#include "server/serving/logging.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/status/wire_status.h"
#include "ops/base/utf8.h"

namespace beamwright::serving {
namespace {

// A pipe that poll calls writable takes so much without waiting, and as a whole (pipe(7)).
constexpr size_t kPiece = PIPE_BUF;
// How often a writer whose reader does not read looks whether it should end.
constexpr int kLookMs = 50;

}  // namespace

LogWriter::LogWriter(LogWriterOptions options) : options_(std::move(options)) {
  // Signals are for other threads, also for those that wait for them later.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void LogWriter::Write(std::string line) {
  if (line.empty()) {
    return;
  }
  absl::MutexLock lock(&mutex_);
  ++taken_;
  while (!lines_.empty() && bytes_ + line.size() > options_.max_bytes) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++dropped_;
  }
  bytes_ += line.size();
  lines_.push_back(std::move(line));
}

bool LogWriter::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto is_done = [this, until = taken_]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return CountDone() >= until; };
  return mutex_.AwaitWithTimeout(absl::Condition(&is_done), timeout);
}

int64_t LogWriter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

std::string LogWriter::Take() {
  std::string text;
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &LogWriter::HasWork));
  first_under_way_ = CountDone();
  while (!lines_.empty() &&
         (num_under_way_ == 0 || text.size() + lines_.front().size() <= kPiece)) {
    text += lines_.front();
    bytes_ -= lines_.front().size();
    lines_.pop_front();
    ++num_under_way_;
  }
  return text;
}

bool LogWriter::WriteOut(const std::string& text) {
  for (size_t begin = 0; begin < text.size();) {
    pollfd entry{options_.fd, POLLOUT, 0};
    const int ready = poll(&entry, 1, kLookMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      absl::MutexLock lock(&mutex_);
      if (stop_) {
        return false;
      }
      continue;
    }
    const ssize_t written =
        write(options_.fd, text.data() + begin, std::min(text.size() - begin, kPiece));
    if (written > 0) {
      begin += static_cast<size_t>(written);
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

void LogWriter::TellIfItFlowsAgain() {
  int64_t news = 0;
  {
    absl::MutexLock lock(&mutex_);
    // While lines are still being dropped there will be more to report.
    if (bytes_ <= options_.max_bytes / 2) {
      news = dropped_ - std::exchange(told_, dropped_);
    }
  }
  if (news > 0 && options_.flows_again != nullptr) {
    options_.flows_again(news);
  }
}

void LogWriter::Run() {
  pthread_setname_np(pthread_self(), "bw-log");
  for (std::string text = Take(); !text.empty(); text = Take()) {
    const bool is_written = WriteOut(text);
    if (is_written) {
      TellIfItFlowsAgain();
    }
    absl::MutexLock lock(&mutex_);
    if (!is_written) {
      dropped_ += num_under_way_;
    }
    num_under_way_ = 0;
  }
}

namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
constexpr char kTime[] = "%Y-%m-%dT%H:%M:%S.%e%z";
constexpr char kCalls[] = "calls";
// A client's words in a log line: enough to recognise them.
constexpr size_t kMaxValueBytes = 256;

// Between the quotes of a JSON string; control characters and bytes that are no UTF-8 as \u00XX.
std::string Escaped(const std::string& text) {
  const bool is_utf8 = CheckUtf8(text).ok();
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !is_utf8)) {
      absl::StrAppendFormat(&escaped, "\\u%04x", byte);
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// %* of the pattern: the message as a JSON string's inside.
class EscapedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const std::string text = Escaped(std::string(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<EscapedMessage>();
  }
};

// Formats on the thread that logs and leaves the writing to the writer's.
class WriterSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit WriterSink(LogWriter& writer) : writer_(writer) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_.Write(std::string(line.data(), line.size()));
  }
  void flush_() override {}  // FlushLog does

 private:
  LogWriter& writer_;
};

// Both are set once, before threads start. The writer is leaked: threads log until the process
// ends, and its own may then still wait for a reader.
bool as_json = false;
LogWriter* log_writer = nullptr;

void TellOfDroppedLines(int64_t dropped) {
  spdlog::warn("{} lines of the log were dropped, because they were not read in time", dropped);
}

}  // namespace

AccessLog::AccessLog(int one_of, std::function<void(const LogFields&)> write)
    : one_of_(one_of), write_(write == nullptr ? LogFieldsOfCall : std::move(write)) {}

void AccessLog::OnCall(const CallRecord& call) {
  // Counted apart, so that rare failures are not lost among many successes.
  std::atomic<int64_t>& count = call.status.ok() ? succeeded_ : failed_;
  if (count++ % one_of_ != 0) {
    return;
  }
  LogFields fields = {
      {"protocol", std::string(call.protocol)},
      {"method", std::string(call.method)},
      {"model", std::string(call.model)},
      {"version", std::string(call.version)},
      {"code", absl::StatusCodeToString(status::WireCode(call.status.code()))},
      {"sources", absl::StrCat(call.num_sources), true},
      {"ms", absl::StrFormat("%.3f", absl::ToDoubleMilliseconds(call.end - call.start)), true},
      {"queue_ms", absl::StrFormat("%.3f", call.queue_ms), true},
      {"compute_ms", absl::StrFormat("%.3f", call.compute_ms), true},
  };
  if (call.num_failed > 0) {
    fields.push_back({"failed_sources", absl::StrCat(call.num_failed), true});
  }
  if (!call.context.request_id.empty()) {
    fields.push_back({"request_id", call.context.request_id});
  }
  if (!call.context.traceparent.empty()) {
    fields.push_back({"traceparent", call.context.traceparent});
  }
  write_(fields);
}

void SetUpLogging(const std::string& level, const std::string& format) {
  as_json = format == "json";
  LogWriterOptions options;
  options.fd = STDERR_FILENO;
  options.flows_again = TellOfDroppedLines;
  log_writer = new LogWriter(std::move(options));
  const auto log =
      std::make_shared<spdlog::logger>("beamwright", std::make_shared<WriterSink>(*log_writer));
  // A separate logger and sink: the lines of calls bear fields, not a message.
  const auto calls =
      std::make_shared<spdlog::logger>(kCalls, std::make_shared<WriterSink>(*log_writer));
  spdlog::set_default_logger(log);
  spdlog::register_logger(calls);
  if (as_json) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<EscapedMessage>('*');
    formatter->set_pattern(
        absl::StrCat(R"({"time":")", kTime, R"(","level":"%l","message":"%*"})"));
    log->set_formatter(std::move(formatter));
    calls->set_pattern(
        absl::StrCat(R"({"time":")", kTime, R"(","level":"%l","message":"call",%v})"));
  } else {
    log->set_pattern(kTextPattern);
    calls->set_pattern(absl::StrCat(kTime, " %l call %v"));
  }
  spdlog::set_level(spdlog::level::from_str(level));
  // The library would write to standard error, and wait for it, where a line cannot be made.
  spdlog::set_error_handler([](const std::string& /*what*/) {});
}

bool FlushLog(absl::Duration timeout) {
  return log_writer == nullptr || log_writer->Flush(timeout);
}

int64_t DroppedLogLines() { return log_writer == nullptr ? 0 : log_writer->dropped(); }

void LogFieldsOfCall(const LogFields& fields) {
  if (const auto calls = spdlog::get(kCalls); calls != nullptr) {
    calls->info("{}", as_json ? FieldsAsJson(fields) : FieldsAsText(fields));
  }
}

std::string FieldsAsText(const LogFields& fields) {
  std::string text;
  for (const LogField& field : fields) {
    const std::string value = field.value.substr(0, kMaxValueBytes);
    const std::string escaped = Escaped(value);
    const bool bare = escaped == value && value.find(' ') == std::string::npos;
    absl::StrAppend(&text, text.empty() ? "" : " ", field.name, "=",
                    bare ? value : absl::StrCat("\"", escaped, "\""));
  }
  return text;
}

std::string FieldsAsJson(const LogFields& fields) {
  std::string text;
  for (const LogField& field : fields) {
    const std::string value = field.value.substr(0, kMaxValueBytes);
    absl::StrAppend(&text, text.empty() ? "" : ",", "\"", field.name,
                    "\":", field.is_number ? value : absl::StrCat("\"", Escaped(value), "\""));
  }
  return text;
}

}  // namespace beamwright::serving
