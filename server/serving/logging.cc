#include "server/serving/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ops/base/utf8.h"

namespace beamwright::serving {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
constexpr char kTime[] = "%Y-%m-%dT%H:%M:%S.%e%z";
constexpr char kCalls[] = "calls";
// A client's words in a log line: enough to tell them by.
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

bool as_json = false;  // set once, before threads start

}  // namespace

void SetUpLogging(const std::string& level, const std::string& format) {
  as_json = format == "json";
  const auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  const auto log = std::make_shared<spdlog::logger>("beamwright", sink);
  // A logger and a sink of its own: the lines of calls bear fields, not a message.
  const auto calls =
      std::make_shared<spdlog::logger>(kCalls, std::make_shared<spdlog::sinks::stderr_sink_mt>());
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
  log->flush_on(spdlog::level::info);
  calls->flush_on(spdlog::level::warn);
}

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
