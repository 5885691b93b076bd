// Reads a file with one request on each line, as JSON: golden requests of a bundle, which are also
// the trials of precision auto, and warm-up requests. A line has a source, which may be a text
// alone, options, and what else its reader asks for (ReadField). Of a file with more lines than
// wanted, lines at equal distances are taken, so that a file sorted by length gives all lengths.
#include "engine/options/request_lines.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/proto_text.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

namespace json = google::protobuf::util;

absl::StatusOr<RequestLine> ReadLine(absl::string_view text) {
  BW_RETURN_IF_ERROR(bundle::CheckJsonBounds(text));
  RequestLine line;
  if (!json::JsonStringToMessage(std::string(text), &line.fields).ok()) {
    return Invalid("is not a JSON object");
  }
  if (const auto source = line.fields.fields().find("source");
      source != line.fields.fields().end() && source->second.has_string_value()) {
    line.source.set_text(source->second.string_value());
  } else {
    BW_RETURN_IF_ERROR(ReadField(line.fields, "source", false, line.source));
  }
  BW_RETURN_IF_ERROR(ReadField(line.fields, "options", false, line.options));
  return line;
}

}  // namespace

absl::Status ReadField(const google::protobuf::Struct& line, const std::string& field,
                       bool is_inside, google::protobuf::Message& message) {
  const auto found = line.fields().find(field);
  if (found == line.fields().end()) {
    return Invalid("has no field '", field, "'");
  }
  std::string text;
  auto status = json::MessageToJsonString(found->second, &text);
  if (status.ok()) {
    text = is_inside ? absl::StrCat("{\"", field, "\":", text, "}") : text;
    status = json::JsonStringToMessage(text, &message);
  }
  return status.ok()
             ? absl::OkStatus()
             : Invalid("field '", field,
                       "': ", absl::string_view(status.message().data(), status.message().size()));
}

absl::StatusOr<std::vector<RequestLine>> ReadRequestLines(const std::string& content,
                                                          int max_requests) {
  std::vector<std::pair<int, absl::string_view>> texts;
  int number = 0;
  for (const absl::string_view text : absl::StrSplit(content, '\n')) {
    ++number;
    if (!text.empty()) {
      texts.emplace_back(number, text);
    }
  }
  std::vector<RequestLine> lines;
  const size_t count = std::min(texts.size(), static_cast<size_t>(max_requests));
  for (size_t i = 0; i < count; ++i) {
    const auto& [at, text] = texts[i * texts.size() / count];
    absl::StatusOr<RequestLine> line = ReadLine(text);
    if (!line.ok()) {
      return Annotate(line.status(), absl::StrCat("line ", at));
    }
    line->number = at;
    lines.push_back(*std::move(line));
  }
  return lines;
}

}  // namespace beamwright::engine
